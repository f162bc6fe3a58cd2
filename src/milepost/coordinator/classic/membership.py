"""SyncGroup, Heartbeat and LeaveGroup in the classic protocol.

    state                sync                                        heartbeat
    Empty                25                                          25
    PreparingRebalance   27                                          27 (it counts as a sign of life)
    CompletingRebalance  waits; the leader's brings the assignments  0
    Stable               the assignment of this generation           0

Before that: 25 for a member that is not known, 82 for a static one that was replaced, 22 for another generation than the current, and
23 when a sync names another protocol than the group's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.coordinator.classic.classic_group import DEAD, EMPTY, PREPARING, STABLE, ClassicGroup
from milepost.coordinator.classic.classic_member import ClassicMember
from milepost.coordinator.classic.rebalancing import Rebalancer, sync_answer_for
from milepost.coordinator.group.runtime import GroupRuntime
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class Membership:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer):
        self.runtime = runtime
        self.rebalancer = rebalancer

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        error = validate(group, request.member_id, request.generation_id, request.group_instance_id)
        if not error and not is_same_protocol(group, request):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not error and group.state is PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            self.runtime.outbox.put(answer, SyncGroupResponse(error_code=error))
            return
        member = group.members[request.member_id]
        self.rebalancer.has_synced(group, member)
        if group.state is STABLE:
            self.rebalancer.start_session(group, member)
            self.runtime.outbox.put(answer, sync_answer_for(group, member))
            return
        if member.sync_answer is not None:
            # An older sync of the same member, most likely on a connection that is gone.
            self.runtime.outbox.put(member.sync_answer, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_answer = answer
        if member.member_id == group.leader_id:
            assignments = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
            self.rebalancer.store_assignments(group, assignments)

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> int:
        error = validate(group, request.member_id, request.generation_id, request.group_instance_id)
        if error:
            return error
        self.rebalancer.heard_of(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE

    def leave(
        self, group: ClassicGroup | None, leavers: Sequence[LeaveGroupRequest.Member]
    ) -> list[LeaveGroupResponse.Member]:
        """Those who were there are gone, and the others rebalance once."""
        gone: list[str] = []
        results = []
        for leaver in leavers:
            error, member = (ErrorCode.UNKNOWN_MEMBER_ID, None) if group is None else self._find_leaver(group, leaver)
            if group is not None and member is not None:
                self.rebalancer.owe(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
                group.remove(member)
                gone.append(member.member_id)
            results.append(
                LeaveGroupResponse.Member(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error
                )
            )
        if group is not None and gone:
            self.rebalancer.after_removal(group, f"{', '.join(gone)} left")
        return results

    def _find_leaver(self, group: ClassicGroup, leaver: LeaveGroupRequest.Member) -> tuple[int, ClassicMember | None]:
        if leaver.member_id in group.pending:
            self.rebalancer.forget_pending(group, leaver.member_id)
            return ErrorCode.NONE, None
        if not leaver.member_id and leaver.group_instance_id is not None:
            # An admin removes a static member by the only name it knows.
            member = group.static_member(leaver.group_instance_id)
            return (ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE), member
        error = group.validate_member(leaver.member_id, leaver.group_instance_id)
        return error, None if error else group.members[leaver.member_id]


def validate(group: ClassicGroup, member_id: str, generation: int, instance_id: str | None) -> int:
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.UNKNOWN_MEMBER_ID if group.state is EMPTY else ErrorCode.NONE


def is_same_protocol(group: ClassicGroup, request: SyncGroupRequest) -> bool:
    """What a request does not say, as before version 5, is not compared."""
    return request.protocol_type in (None, group.protocol_type) and request.protocol_name in (None, group.protocol_name)
