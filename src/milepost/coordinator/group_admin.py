"""DescribeGroups and ListGroups.

A group that is not there, or is not of the classic protocol, is described as Dead: without an error up to version 5, with 69 from
version 6. Members' metadata and assignments are shown while the group is stable; in between they belong to no generation.
"""

from __future__ import annotations

from milepost.coordinator.classic_group import DEAD, STABLE, ClassicGroup
from milepost.coordinator.interfaces import Group
from milepost.coordinator.registry import Registry
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

Described = DescribeGroupsResponse.Group
GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""Read, delete, describe: what may be done to a group, as bits, where nobody is refused anything."""


def describe_groups(request: DescribeGroupsRequest, version: int, registry: Registry) -> DescribeGroupsResponse:
    described = []
    for group_id in request.groups:
        error = registry.unavailable(group_id)
        if error:
            described.append(Described(group_id=group_id, error_code=error, members=[]))
            continue
        group = registry.get(group_id)
        found = describe(group) if isinstance(group, ClassicGroup) else nowhere(group_id, group, version)
        if request.include_authorized_operations:
            found.authorized_operations = GROUP_OPERATIONS
        described.append(found)
    return DescribeGroupsResponse(groups=described)


def nowhere(group_id: str, group: Group | None, version: int) -> Described:
    if version < 6:
        return Described(group_id=group_id, group_state=DEAD.value, members=[])
    message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
    return Described(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message,
        group_state=DEAD.value,
        members=[],
    )


def describe(group: ClassicGroup) -> Described:
    is_stable = group.state is STABLE
    return Described(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            Described.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def list_groups(request: ListGroupsRequest, registry: Registry) -> ListGroupsResponse:
    """A filter that is empty lets everything through; upper and lower case are the same."""
    if registry.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.kind,
            )
            for group in registry.groups.values()
            if (not states or group.state_name.lower() in states) and (not kinds or group.kind in kinds)
        ]
    )
