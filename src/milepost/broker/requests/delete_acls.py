"""DeleteAcls (key 31): the rules that pass any of some filters (`security/acl_filter`). They are gone from the next request on.

Each filter is answered with what it found, all of them as the rules were when the request came. What a request may cost is bounded:

    filters without a name, which look at every rule    MOST_SCANS of them
    rules in the answer, of all filters together        MOST_MATCHES

Filters behind that are answered with 44 POLICY_VIOLATION and delete nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.requests.create_acls import MOST_ACLS
from milepost.broker.requests.describe_acls import NO_AUTHORIZER
from milepost.errors import MilepostError, PolicyViolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteAclsRequest, DeleteAclsResponse
from milepost.security.acl_filter import AclFilter

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.broker.topology.protocols import AclFailures, Acls
    from milepost.security.acls import AclBinding

MOST_SCANS = 100
MOST_MATCHES = 2 * MOST_ACLS
Result = DeleteAclsResponse.FilterResult


def handle(request: DeleteAclsRequest, context: Context) -> Work[DeleteAclsResponse]:
    context.goes_on = True
    acls = context.broker.topology.acls
    if acls is None:
        disabled = ErrorCode.SECURITY_DISABLED
        return DeleteAclsResponse(
            filter_results=[Result(error_code=disabled, error_message=NO_AUTHORIZER) for _ in request.filters]
        )
    search = Search(acls)
    found: list[list[AclBinding] | Refusal] = []
    refusals: dict[Refusal, Refusal] = {}
    for asked in request.filters:
        try:
            found.append((yield from search.matching(filter_of(asked))))
        except MilepostError as error:
            # The same sentence once: a megabyte has forty thousand filters. Without the error, which keeps all it has seen.
            refusal = Refusal(error.code, str(error))
            found.append(refusals.setdefault(refusal, refusal))
        yield
    request.filters = []
    named = dict.fromkeys(each for bindings in found if isinstance(bindings, list) for each in bindings)
    failures = yield from acls.removing(list(named))
    results = []
    for bindings in found:
        results.append((yield from answered(bindings, failures)))
    return DeleteAclsResponse(filter_results=results)


class Refusal(NamedTuple):
    code: int
    why: str


class Search:
    """Of one request."""

    def __init__(self, acls: Acls):
        self._index = acls.index
        self._known: dict[AclFilter, list[AclBinding]] = {}
        self._scans = 0
        self._matches = 0

    def matching(self, wanted: AclFilter) -> Work[list[AclBinding]]:
        found = self._known.get(wanted)
        if found is None:
            self._scans += wanted.name is None
            if self._scans > MOST_SCANS:
                raise PolicyViolation(f"more than {MOST_SCANS} filters without a resource name are in the request; send several")
            found = self._known[wanted] = []
            for pattern in self._index.candidates(wanted):
                if wanted.matches_pattern(pattern):
                    for each in self._index.of(pattern):
                        if wanted.matches_entry(each):
                            found.append(each)
                        yield
                yield
        self._matches += len(found)
        if self._matches > MOST_MATCHES:
            raise PolicyViolation(f"the filters of the request match more than {MOST_MATCHES} ACLs together; send several")
        return found


def filter_of(asked: DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter.numbered(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def answered(bindings: list[AclBinding] | Refusal, failures: AclFailures) -> Work[Result]:
    if isinstance(bindings, Refusal):
        return Result(error_code=bindings.code, error_message=bindings.why)
    matching = []
    for each in bindings:
        failure = failures.get(each)
        kind, name, pattern_type = each.pattern
        matching.append(
            Result.MatchingAcl(
                error_code=ErrorCode.NONE if failure is None else failure.code,
                error_message=None if failure is None else str(failure),
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
        )
        yield
    return Result(error_message=None, matching_acls=matching)
