"""CreateAcls (key 30): rules that hold from the next request on. One that is there already is fine.

Each is answered by itself: 42 INVALID_REQUEST for a number that stands for nothing, or only in filters (UNKNOWN, ANY, MATCH), and for a
name that no rule may have; 44 POLICY_VIOLATION when there are MOST_ACLS. Without an authorizer nobody would obey them: 54.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.requests.describe_acls import NO_AUTHORIZER
from milepost.errors import InvalidRequest, MilepostError, PolicyViolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import CreateAclsRequest, CreateAclsResponse
from milepost.security.acls import AclBinding, from_row

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.broker.topology.protocols import Acls

MOST_ACLS = 50_000
Creation = CreateAclsRequest.Creation
Result = CreateAclsResponse.Result


def handle(request: CreateAclsRequest, context: Context) -> Work[CreateAclsResponse]:
    context.goes_on = True
    acls = context.broker.topology.acls
    results: list[Result] = []
    wanted: dict[AclBinding, list[Result]] = {}
    for creation in request.creations:
        result = Result(error_message=None)
        results.append(result)
        if acls is None:
            result.error_code, result.error_message = ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER
        else:
            try:
                wanted.setdefault(binding_of(creation, acls), []).append(result)
            except MilepostError as error:
                tell(result, error)
        yield
    if acls is not None and wanted:
        failures = yield from with_room(list(wanted), acls)
        for binding, failure in failures.items():
            for result in wanted[binding]:
                tell(result, failure)
    return CreateAclsResponse(results=results)


def with_room(bindings: list[AclBinding], acls: Acls) -> Work[dict[AclBinding, MilepostError]]:
    """Add as many as there is room for."""
    new = [each for each in bindings if each not in acls.index]
    room = max(MOST_ACLS - len(acls.index), 0)
    failures: dict[AclBinding, MilepostError] = yield from acls.adding(new[:room])
    full = PolicyViolation(f"there are {MOST_ACLS} ACLs, the most that are kept; delete some, or use a prefixed pattern")
    return {**failures, **dict.fromkeys(new[room:], full)}


def binding_of(creation: Creation, acls: Acls) -> AclBinding:
    binding = from_row(
        (
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    )
    fault = acls.fault_of(binding)
    if fault is not None:
        raise InvalidRequest(fault)
    return binding


def tell(result: Result, error: MilepostError) -> None:
    result.error_code, result.error_message = error.code, str(error)
