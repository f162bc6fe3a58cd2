"""DescribeGroups and ListGroups.

A group that is not there, or is not of the classic protocol, is described as Dead: without an error up to version 5, with 69 from
version 6. Members' metadata and assignments are shown while the group is stable; in between they belong to no generation.
"""

from __future__ import annotations

from milepost.coordinator.classic.classic_group import DEAD, STABLE, ClassicGroup
from milepost.coordinator.classic.classic_member import metadata_in
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.interfaces import Group, Work
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


def describing_groups(request: DescribeGroupsRequest, version: int, registry: Registry) -> Work[DescribeGroupsResponse]:
    described = []
    for group_id in request.groups:
        error = registry.unavailable(group_id)
        if error:
            described.append(Described(group_id=group_id, error_code=error, members=[]))
            yield
            continue
        group = registry.get(group_id)
        found = (yield from describing(group)) if isinstance(group, ClassicGroup) else nowhere(group_id, group, version)
        if request.include_authorized_operations:
            found.authorized_operations = GROUP_OPERATIONS
        described.append(found)
        yield
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


def describing(group: ClassicGroup) -> Work[Described]:
    """As it is now; only the writing down is in pieces."""
    is_stable = group.state is STABLE
    described = Described(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[],
    )
    protocol = group.protocol_name
    members = [(member, member.member_id, member.protocols, member.assignment) for member in group.members.values()]
    for member, member_id, protocols, assignment in members:
        described.members.append(
            Described.Member(
                member_id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=metadata_in(protocols, protocol) if is_stable else b"",
                member_assignment=assignment if is_stable else b"",
            )
        )
        yield
    return described


def listing_groups(request: ListGroupsRequest, registry: Registry) -> Work[ListGroupsResponse]:
    """A filter that is empty lets everything through; upper and lower case are the same."""
    if registry.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    listed = []
    for group in list(registry.groups.values()):
        if registry.get(group.group_id) is group:
            state = group.state_name
            if (not states or state.lower() in states) and (not kinds or group.kind in kinds):
                listed.append(
                    ListGroupsResponse.Group(
                        group_id=group.group_id, protocol_type=group.protocol_type, group_state=state, group_type=group.kind
                    )
                )
        yield
    return ListGroupsResponse(groups=listed)
