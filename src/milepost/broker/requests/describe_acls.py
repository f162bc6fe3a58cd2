"""DescribeAcls (key 29): the ACLs that pass a filter (`security/acl_filter`), by the resource that they are about.

Without an authorizer there are none, and that is said: 54 SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import InvalidRequest
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from milepost.security.acl_filter import AclFilter

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

NO_AUTHORIZER = "No Authorizer is configured."
Resource = DescribeAclsResponse.Resource


def handle(request: DescribeAclsRequest, context: Context) -> Work[DescribeAclsResponse]:
    acls = context.broker.topology.acls
    if acls is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    try:
        wanted = AclFilter.numbered(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    except InvalidRequest as error:
        return DescribeAclsResponse(error_code=error.code, error_message=str(error))
    resources = []
    for pattern in acls.index.candidates(wanted):
        if wanted.matches_pattern(pattern):
            found = []
            for each in acls.index.of(pattern):
                if wanted.matches_entry(each):
                    found.append(
                        Resource.Acl(
                            principal=each.principal, host=each.host, operation=each.operation, permission_type=each.permission
                        )
                    )
                yield
            if found:
                kind, name, pattern_type = pattern
                resources.append(Resource(resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=found))
        yield
    return DescribeAclsResponse(error_message=None, resources=resources)
