"""How a classic group gets from one generation to the next, and the timers that keep it from waiting for ever.

    timer         runs from                        when it ends
    initial       the first join of an empty       extended by the same delay while newcomers came, up to the rebalance
                  group                            timeout; then the join is complete
    join          the start of a later rebalance   who has not rejoined is dropped (static members stay), the join is complete
    sync          the end of the join              who has not synced is dropped, and the group rebalances again
    session       each sign of life of a member    the member is dropped, and the group rebalances
    pending       MEMBER_ID_REQUIRED               the id is forgotten, and nobody waits for it any more

A completed join gives every member the generation, the protocol and the leader, and the leader all members. The leader's sync
then brings the assignments, which are written to the log before any member gets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from milepost.coordinator.classic.classic_group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup
from milepost.coordinator.classic.classic_member import ClassicMember
from milepost.coordinator.classic.classic_records import group_error, group_record
from milepost.coordinator.classic.pending_members import PendingMembers
from milepost.coordinator.group.runtime import GroupRuntime, logger
from milepost.coordinator.interfaces import PendingAnswer
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.messages import JoinGroupResponse, SyncGroupResponse

SESSION_GRAIN_MS = 250


class Rebalancer:
    def __init__(self, runtime: GroupRuntime):
        self.runtime = runtime
        self.settings = runtime.settings
        self.pending = PendingMembers()
        self.forgotten: Callable[[ClassicGroup], object] = lambda group: None
        """Told of a group that lost an id nobody came back with: it may have been all there was."""

    # Signs of life.

    def start_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        member.stop_session()
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_timer = self.runtime.later(timeout_ms, lambda: self._end_session(group, member))
        member.session_start_ms = self.runtime.now_ms()

    def heard_of(self, group: ClassicGroup, member: ClassicMember) -> None:
        """A heartbeat or a commit. Of many in a row one restarts the session: a timer for each would fill the memory."""
        if member.session_timer is None or not 0 <= self.runtime.now_ms() - member.session_start_ms < SESSION_GRAIN_MS:
            self.start_session(group, member)

    def _end_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        member.session_timer = None
        if not member.keeps_its_session:
            self.remove(group, [member], ErrorCode.UNKNOWN_MEMBER_ID, f"{member.member_id} was not heard of in time")

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Somebody was given this id and is to come back with it."""

        def forget() -> None:
            self.forget_pending(group, member_id)

        group.pending[member_id] = self.runtime.later(timeout_ms, forget)
        self.pending.add(group.group_id, member_id, forget)

    def comes_back(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether somebody was given this id, and now is here with it."""
        timer = group.pending.pop(member_id, None)
        if timer is None:
            return False
        timer.cancel()
        self.pending.discard(group.group_id, member_id)
        return True

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        if self.comes_back(group, member_id):
            self.maybe_complete_join(group)
            self.forgotten(group)

    def close(self, group: ClassicGroup, error_code: int) -> list[PendingAnswer]:
        """The responses that `ClassicGroup.close` leaves to be sent."""
        for member_id in group.pending:
            self.pending.discard(group.group_id, member_id)
        return group.close(error_code)

    def remove(self, group: ClassicGroup, members: Iterable[ClassicMember], error_code: int, reason: str) -> None:
        """Drop members, answer what they wait for, and let the others rebalance."""
        for member in members:
            self.owe(group, member, error_code)
            group.remove(member)
        self.after_removal(group, reason)

    def after_removal(self, group: ClassicGroup, reason: str) -> None:
        if group.state in (STABLE, COMPLETING):
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    def owe(self, group: ClassicGroup, member: ClassicMember, error_code: int) -> None:
        for answer, response in group.take_answers(member, error_code):
            self.runtime.outbox.put(answer, response)

    # Joining.

    def rebalance(self, group: ClassicGroup, reason: str) -> None:
        """Something changed: start a rebalance, or see whether the one under way is complete now."""
        if group.may_become(PREPARING):
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        logger.info("group %s, generation %d: rebalance, because %s", group.group_id, group.generation, reason)
        if group.state is COMPLETING:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None
        group.pending_sync.clear()
        is_first = group.state is EMPTY
        group.become(PREPARING, self.runtime.now_ms())
        if is_first:
            delay = self.settings.initial_rebalance_delay_ms
            self._wait_for_newcomers(group, delay, max(group.rebalance_timeout_ms - delay, 0))
        elif group.have_all_joined:
            self.complete_join(group)
        else:
            self._wait_for_joins(group)

    def _wait_for_newcomers(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group.newcomers = False

        def delay_over() -> None:
            if group.newcomers and remaining_ms > 0:
                self._wait_for_newcomers(
                    group, min(self.settings.initial_rebalance_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0)
                )
            else:
                self.complete_join(group)

        self._set_join_timer(group, delay_ms, delay_over)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        self._set_join_timer(group, group.rebalance_timeout_ms, lambda: self.complete_join(group))

    def _set_join_timer(self, group: ClassicGroup, milliseconds: int, task: Callable[[], None]) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
        group.join_timer = self.runtime.later(milliseconds, task)

    def maybe_complete_join(self, group: ClassicGroup) -> None:
        """A first rebalance always waits its delay, for those who have not come yet."""
        if group.state is PREPARING and group.have_all_joined and not group.is_in_first_rebalance:
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None
        for member in list(group.members.values()):
            if member.join_answer is None and not member.is_static:
                group.remove(member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has rejoined: wait for them once more, or until their sessions end.
            self._wait_for_joins(group)
            return
        group.next_generation(self.runtime.now_ms())
        if group.state is EMPTY:
            self._store_empty(group)
            return
        for member in group.members.values():
            member.is_new = False
            group.pending_sync.add(member.member_id)
            self.start_session(group, member)
            if member.join_answer is not None:
                self.runtime.outbox.put(member.join_answer, join_answer_for(group, member))
                group.set_join_answer(member, None)
        self._wait_for_syncs(group)

    def _store_empty(self, group: ClassicGroup) -> None:
        def stored(error_code: int) -> None:
            if error_code:
                logger.warning("group %s: that it is empty could not be written: %s", group.group_id, error_name(error_code))

        self.runtime.write(group.group_id, [group_record(group, {}, self.runtime.now_ms())], stored)

    # Syncing.

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        def time_over() -> None:
            group.sync_timer = None
            missing = [group.members[member_id] for member_id in group.members if member_id in group.pending_sync]
            if missing:
                self.remove(group, missing, ErrorCode.UNKNOWN_MEMBER_ID, f"{len(missing)} members did not sync in time")

        group.sync_timer = self.runtime.later(group.rebalance_timeout_ms, time_over)

    def has_synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync and group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def store_assignments(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """The leader has spoken. Members it forgot get empty bytes; members it made up are dropped."""
        generation = group.generation
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}

        def stored(error_code: int) -> None:
            if group.state is not COMPLETING or group.generation != generation:
                return  # another rebalance came in between, and has answered everybody
            if error_code:
                logger.warning("group %s: assignments could not be written: %s", group.group_id, error_name(error_code))
                self.fail_syncs(group, group_error(error_code))
                self.prepare(group, "its assignments could not be written")
                return
            group.become(STABLE, self.runtime.now_ms())
            for member in group.members.values():
                member.assignment = complete.get(member.member_id, b"")
                self._answer_sync(group, member, ErrorCode.NONE)

        self.runtime.write(group.group_id, [group_record(group, complete, self.runtime.now_ms())], stored)

    def fail_syncs(self, group: ClassicGroup, error_code: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, error_code)

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, error_code: int) -> None:
        if member.sync_answer is None:
            return
        response = SyncGroupResponse(error_code=error_code) if error_code else sync_answer_for(group, member)
        self.runtime.outbox.put(member.sync_answer, response)
        member.sync_answer = None
        self.start_session(group, member)


def join_answer_for(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The current generation, as this member is told it."""
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.described_members() if is_leader else [],
    )


def sync_answer_for(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment)
