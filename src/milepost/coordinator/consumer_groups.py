"""The consumer protocol (KIP-848): heartbeats in, epochs and assignments out.

One heartbeat does all that is due: it takes in what the member says, decides whether the group needs a new epoch, assigns, and moves
this member (and no other) one step towards its target. Others hear of it at their own heartbeats.

    timer        runs from                        when it ends
    session      each heartbeat of a member       the member is removed, and the epoch rises
    revocation   the member has to give up        the same, if it is in that epoch still; the member's own rebalance timeout
                 partitions

What a heartbeat changes is written first and answered then. What cannot be written is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from milepost.coordinator import consumer_heartbeat, consumer_targets
from milepost.coordinator.classic_group import ClassicGroup
from milepost.coordinator.client import Client
from milepost.coordinator.consumer_change import Change
from milepost.coordinator.consumer_describe import describe_groups
from milepost.coordinator.consumer_group import ConsumerGroup
from milepost.coordinator.consumer_heartbeat import Refused
from milepost.coordinator.consumer_member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState, Partitions, by_topic
from milepost.coordinator.consumer_settings import ConsumerGroupSettings
from milepost.coordinator.consumer_targets import ClusterTopics
from milepost.coordinator.group_records import group_error, group_tombstone
from milepost.coordinator.groups import GroupCoordinator
from milepost.coordinator.interfaces import Handle
from milepost.coordinator.re2_syntax import RegularExpressionError
from milepost.coordinator.reconciliation import next_step
from milepost.coordinator.runtime import logger
from milepost.coordinator.subscriptions import resolve
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from milepost.record.internal_topics.consumer_group_records import ConsumerGroupMetadataKey
from milepost.record.internal_topics.consumer_offsets import Key, Value
from milepost.record.internal_topics.unknown import Unknown

Answer = Callable[[ConsumerGroupHeartbeatResponse], None]


class ConsumerGroups:
    def __init__(self, coordinator: GroupCoordinator, cluster: ClusterTopics, settings: ConsumerGroupSettings | None = None):
        self.coordinator = coordinator
        self.registry = coordinator.registry
        self.runtime = coordinator.runtime
        self.cluster = cluster
        self.settings = settings or ConsumerGroupSettings()

    def describe(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        return describe_groups(request, self.registry, self.cluster, self.settings.assignors[0])

    # Heartbeats.

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, answer: Answer) -> None:
        with self.runtime.outbox:
            try:
                consumer_heartbeat.validate(request, version, self.settings.assignors)
                error = self.registry.unavailable(request.group_id)
                if error:
                    raise Refused(error, f"Group {request.group_id}: {error_name(error)}.")
                if consumer_heartbeat.is_leave(request):
                    self._leave(request, answer)
                else:
                    self._beat(request, client, answer)
            except Refused as refused:
                self._answer(answer, refused.error_code, str(refused))

    def _answer(self, answer: Answer, error_code: int, message: str) -> None:
        self.runtime.outbox.put(answer, ConsumerGroupHeartbeatResponse(error_code=error_code, error_message=message))

    def _beat(self, request: ConsumerGroupHeartbeatRequest, client: Client, answer: Answer) -> None:
        group, replaced = self._group_for(request)
        member_id = request.member_id or self.runtime.new_id()
        owned = consumer_heartbeat.owned_in(request)
        known = consumer_heartbeat.find_member(group, request, member_id, owned)
        if known is None and len(group.members) >= self.settings.max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {self.settings.max_size} members.",
            )
        member = consumer_heartbeat.described(known, request, member_id, client)
        if member.topic_regex and (known is None or known.topic_regex != member.topic_regex):
            self._check_regex(member.topic_regex)
        change = Change(group, self.runtime.now_ms())
        if replaced is not None:
            change.records.append(group_tombstone(group.group_id, change.now_ms))
        self.registry.groups[group.group_id] = group
        self._take_in(change, known, member)
        stepped = self._step(change, group.members[member_id], owned)
        self._start_session(group, member_id)
        is_behind = request.member_epoch != member.epoch
        has_news = consumer_heartbeat.is_full(request) or is_behind or stepped.assigned != member.assigned
        response = self._response(stepped, stepped.assigned if has_news else None)

        def written(error_code: int) -> None:
            if error_code:
                if replaced is not None or not group.revision:
                    self._take_back(group, replaced)
                self._answer(answer, group_error(error_code), f"The group could not be written: {error_name(error_code)}.")
            else:
                self.runtime.outbox.put(answer, response)

        self._write(change, written)

    def _group_for(self, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, ClassicGroup | None]:
        """The group, perhaps a new one, and the empty classic group whose place it takes."""
        group = self.registry.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group, None
        if request.member_epoch != 0:
            raise consumer_heartbeat.unknown(f"Group {request.group_id} is not a consumer group.")
        if group is None:
            return ConsumerGroup(request.group_id), None
        assert isinstance(group, ClassicGroup)
        if group.is_empty:
            return ConsumerGroup(request.group_id), group
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group and has members.")

    def _take_back(self, group: ConsumerGroup, replaced: ClassicGroup | None) -> None:
        if self.registry.get(group.group_id) is group:
            self.registry.drop(group)
            if replaced is not None:
                self.registry.groups[group.group_id] = replaced

    def _check_regex(self, pattern: str) -> None:
        try:
            resolve(pattern, self.cluster.topics)
        except RegularExpressionError as error:
            raise Refused(
                ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex is not a valid regular expression: {error}."
            ) from error

    def _take_in(self, change: Change, known: ConsumerMember | None, member: ConsumerMember) -> None:
        """Who the member is and what it wants; a new epoch and new targets if need be."""
        if known is not None and known.member_id != member.member_id:
            self._stop_timers(change.group, known.member_id)
            change.replace_static(known, member)
        elif known is not None and known.is_away:
            change.member(member)
            change.assignment(member)
        elif known != member:
            change.member(member)
        has_changed = known is None or (known.topic_names, known.topic_regex) != (member.topic_names, member.topic_regex)
        consumer_targets.decide_epoch(change, self.cluster, has_changed=has_changed)
        consumer_targets.assign(change, self.cluster, self.settings.assignors[0])

    def _step(self, change: Change, member: ConsumerMember, owned: Partitions | None) -> ConsumerMember:
        group = change.group
        target = group.target_of(member.member_id)
        stepped = next_step(member, group.target_epoch, target, owned, group.holder)
        if stepped != member:
            change.assignment(stepped)
            self._stop(group.revocations, stepped.member_id)
            self._watch_revocation(group, stepped)
        return stepped

    def _response(self, member: ConsumerMember, assigned: Partitions | None) -> ConsumerGroupHeartbeatResponse:
        assignment = None
        if assigned is not None:
            assignment = ConsumerGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponse.Assignment.TopicPartition(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in by_topic(assigned).items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            assignment=assignment,
        )

    # Going.

    def _leave(self, request: ConsumerGroupHeartbeatRequest, answer: Answer) -> None:
        group = self.registry.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise consumer_heartbeat.unknown(f"Group {request.group_id} is not a consumer group.")
        member = consumer_heartbeat.find_leaver(group, request)

        def written(error_code: int) -> None:
            if error_code:
                self._answer(answer, group_error(error_code), f"The group could not be written: {error_name(error_code)}.")
            else:
                response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
                self.runtime.outbox.put(answer, response)

        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # Its session goes on: if it is not back by then, it has left for good.
            self._stop(group.revocations, member.member_id)
            change = Change(group, self.runtime.now_ms())
            change.assignment(replace(member, epoch=STATIC_LEAVE_EPOCH, state=MemberState.STABLE, pending_revocation=frozenset()))
            self._write(change, written)
        else:
            self._remove(group, [member], "left", written)

    def _remove(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], reason: str, done: Callable[[int], None] | None = None
    ) -> None:
        """Its partitions are free, and at the next heartbeat of any member they are somebody else's."""
        change = Change(group, self.runtime.now_ms())
        for member in members:
            logger.info("group %s, epoch %d: %s %s", group.group_id, group.epoch, member.member_id, reason)
            self._stop_timers(group, member.member_id)
            change.remove(member.member_id)
        consumer_targets.decide_epoch(change, self.cluster, has_changed=True)

        def written(error_code: int) -> None:
            if error_code:
                logger.warning("group %s: a removal could not be written: %s", group.group_id, error_name(error_code))

        self._write(change, done or written)

    # Timers.

    def _start_session(self, group: ConsumerGroup, member_id: str) -> None:
        self._stop(group.sessions, member_id)

        def end() -> None:
            del group.sessions[member_id]
            self._remove(group, [group.members[member_id]], "was not heard of in time")

        group.sessions[member_id] = self.runtime.later(self.settings.session_timeout_ms, end)

    def _watch_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return

        def end() -> None:
            del group.revocations[member.member_id]
            if group.members[member.member_id].epoch == member.epoch:
                self._remove(group, [group.members[member.member_id]], "did not give up its partitions in time")

        group.revocations[member.member_id] = self.runtime.later(member.rebalance_timeout_ms, end)

    @staticmethod
    def _stop(timers: dict[str, Handle], member_id: str) -> None:
        timer = timers.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def _stop_timers(self, group: ConsumerGroup, member_id: str) -> None:
        self._stop(group.sessions, member_id)
        self._stop(group.revocations, member_id)

    def _tend(self, group: ConsumerGroup) -> None:
        """Timers for those who are there, as after a start; none for the others."""
        for member_id in {*group.sessions, *group.revocations} - set(group.members):
            self._stop_timers(group, member_id)
        for member in group.members.values():
            if member.member_id not in group.sessions:
                self._start_session(group, member.member_id)
            if member.member_id not in group.revocations:
                self._watch_revocation(group, member)

    # The log.

    def _write(self, change: Change, done: Callable[[int], None]) -> None:
        """`done` when the change is in the log, and with it everything the answer tells of."""
        group = change.group
        if not change.records:
            if group.writes_in_flight:
                group.after_writes.append(done)
            else:
                done(ErrorCode.NONE)
            return
        group.writes_in_flight += 1

        def written(error_code: int) -> None:
            group.writes_in_flight -= 1
            if group.is_dead:
                error_code = error_code or ErrorCode.NOT_COORDINATOR
            elif error_code:
                if change.before is not None:
                    group.restore(change.before)
                self._tend(group)
            done(error_code)
            if not group.writes_in_flight:
                waiting, group.after_writes = group.after_writes, []
                for each in waiting:
                    each(error_code)

        self.runtime.write(group.group_id, change.records, written)

    def replay(self, partition: int, key: Key, value: Value | None) -> None:
        if isinstance(key, Unknown):
            return
        group_id = key.group_id  # type: ignore[union-attr]
        group = self.registry.groups.get(group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            self.registry.groups.pop(group_id, None)
            return
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self.registry.groups[group_id] = ConsumerGroup(group_id)
        group.apply(key, value)

    def loaded(self, partition: int) -> None:
        for group in self.registry.groups.values():
            if isinstance(group, ConsumerGroup) and self.runtime.partition_for(group.group_id) == partition:
                self._tend(group)

    def on_topics_changed(self) -> None:
        """Topics were made or deleted, or got partitions: every group looks again at its next heartbeat."""
        for group in self.registry.groups.values():
            if isinstance(group, ConsumerGroup):
                group.needs_refresh = True

    # Requests of the classic protocol.

    def join_classic(
        self, request: JoinGroupRequest, version: int, client: Client, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """An empty group becomes a classic one; a group with members does not take members of the other protocol."""
        group = self.registry.get(request.group_id)
        assert isinstance(group, ConsumerGroup)

        def refuse(error_code: int) -> None:
            response = JoinGroupResponse(error_code=error_code, member_id=request.member_id)
            self.runtime.outbox.put(answer, response)

        if not group.is_empty:
            refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return

        def written(error_code: int) -> None:
            if error_code:
                refuse(group_error(error_code))
                return
            if self.registry.get(request.group_id) is group:
                self.registry.drop(group)
            self.coordinator.join(request, version, client, answer)

        self.runtime.write(group.group_id, group.tombstones(self.runtime.now_ms()), written)

    def sync_classic(self, request: SyncGroupRequest, version: int, answer: Callable[[SyncGroupResponse], None]) -> None:
        self.runtime.outbox.put(answer, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat_classic(self, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    def leave_classic(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Admins remove members this way, of whatever protocol."""
        group = self.registry.get(request.group_id)
        assert isinstance(group, ConsumerGroup)
        leavers = request.members if version >= 3 else [LeaveGroupRequest.Member(member_id=request.member_id)]
        results = []
        gone: dict[str, ConsumerMember] = {}
        for leaver in leavers:
            member = group.members.get(leaver.member_id)
            error = ErrorCode.NONE
            if leaver.group_instance_id is not None:
                member = group.static_member(leaver.group_instance_id)
                if member is not None and leaver.member_id not in ("", member.member_id):
                    error, member = ErrorCode.FENCED_INSTANCE_ID, None
            if member is None or member.member_id in gone:
                error = error or ErrorCode.UNKNOWN_MEMBER_ID
            else:
                gone[member.member_id] = member
            results.append(
                LeaveGroupResponse.Member(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error
                )
            )
        if gone:
            with self.runtime.outbox:
                self._remove(group, gone.values(), "was removed")
        return LeaveGroupResponse(members=results) if version >= 3 else LeaveGroupResponse(error_code=results[0].error_code)
