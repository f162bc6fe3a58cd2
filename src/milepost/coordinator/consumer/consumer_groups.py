"""The consumer protocol (KIP-848): heartbeats in, epochs and assignments out.

One heartbeat does all that is due: it takes in what the member says, decides whether the group needs a new epoch, assigns if that was
not done just now (`consumer_targets`), and moves this member (and no other) one step towards its target. Others hear of it at their own
heartbeats.

What a heartbeat changes is prepared in pieces, since the cost grows with the topics of the group, and takes effect in one. It is written
first and answered then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from milepost.config.group import GroupConfig
from milepost.coordinator.classic.classic_group import ClassicGroup
from milepost.coordinator.classic.classic_records import group_error, group_tombstone
from milepost.coordinator.classic.joining import Join
from milepost.coordinator.consumer import consumer_heartbeat
from milepost.coordinator.consumer.classic_requests import ClassicRequests
from milepost.coordinator.consumer.consumer_change import Change
from milepost.coordinator.consumer.consumer_describe import describing_groups
from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_heartbeat import Refused
from milepost.coordinator.consumer.consumer_member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState, Partitions, by_topic
from milepost.coordinator.consumer.consumer_membership import ConsumerMembership, stop
from milepost.coordinator.consumer.consumer_settings import ConsumerGroupSettings
from milepost.coordinator.consumer.consumer_targets import ClusterTopics, resolving_patterns
from milepost.coordinator.consumer.found_topics import FoundTopics
from milepost.coordinator.group.group_coordinator import GroupCoordinator
from milepost.coordinator.group.migration import content_of, filling_from_classic, revived, upgrade_fault
from milepost.coordinator.interfaces import Client, Work
from milepost.coordinator.regex.re2_syntax import RegularExpressionError
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
from milepost.work import Turns, pieces

Assigned = ConsumerGroupHeartbeatResponse.Assignment.TopicPartition
Answer = Callable[[ConsumerGroupHeartbeatResponse], None]
Found = frozenset[str] | RegularExpressionError | None
"""The topics of a pattern, what is wrong with it, or nothing: it was not looked at."""


@dataclass(frozen=True)
class Prepared:
    """What a heartbeat is going to do, unless the group is another one by then."""

    change: Change
    commit: Callable[[], None]
    replaced: ClassicGroup | None = None
    replaces: list[object] | None = None
    """What was in the classic group whose place is taken."""

    def is_current(self, group: object) -> bool:
        if self.change.is_stale:
            return False
        if self.replaced is not None:
            return group is self.replaced and content_of(self.replaced) == self.replaces
        return group is self.change.group if self.change.group.revision else group in (None, self.change.group)


class ConsumerGroups:
    def __init__(self, coordinator: GroupCoordinator, cluster: ClusterTopics, settings: ConsumerGroupSettings | None = None):
        self.coordinator = coordinator
        self.registry = coordinator.registry
        self.runtime = coordinator.runtime
        self.cluster = cluster
        self.settings = settings or ConsumerGroupSettings()
        self.membership = ConsumerMembership(self.registry, cluster, self.settings)
        self.found_topics = FoundTopics(cluster)
        self._classic = ClassicRequests(self.membership)
        self._turns = Turns[str]()

    def use_settings(self, settings: ConsumerGroupSettings) -> None:
        """Of all groups that have none of their own."""
        self.settings = self.membership.settings = settings

    def use_config(self, group_id: str, config: GroupConfig | None) -> None:
        """What is set for one group, or nothing any more."""
        own = None
        if config is not None:
            own = replace(
                self.settings,
                session_timeout_ms=config.consumer_session_timeout_ms,
                heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
                assignment_interval_ms=config.consumer_assignment_interval_ms,
            )
        self.membership.use_settings(group_id, own)

    def describe(self, request: ConsumerGroupDescribeRequest) -> Work[ConsumerGroupDescribeResponse]:
        return describing_groups(request, self.registry, self.cluster, self.settings.assignors)

    # Heartbeats.

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, answer: Answer) -> Work[None]:
        """Patterns are matched first. Then a change is prepared, for one heartbeat of a group at a time, and takes effect in one piece."""
        try:
            self._validate(request, version)
            if request.group_id in self._turns:
                self._hear_of(request)
            found = yield from self._resolving(request, client)
            yield from self._turns.of(request.group_id, self._changing(request, version, client, answer, found))
        except Refused as refused:
            with self.runtime.outbox:
                self._answer(answer, refused.error_code, str(refused))

    def _changing(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, answer: Answer, found: Found
    ) -> Work[None]:
        """Made anew when others have changed the group meanwhile: a session that ended, an admin, members of the classic protocol."""
        owned = yield from consumer_heartbeat.owned_in(request)
        while True:
            self._validate(request, version)
            if consumer_heartbeat.is_leave(request):
                prepared = yield from self._leaving(request, answer)
            else:
                prepared = yield from self._beating(request, client, answer, found, owned)
            with self.runtime.outbox:
                self._validate(request, version)
                if prepared.is_current(self.registry.get(request.group_id)):
                    prepared.commit()
                    return
            yield

    def _hear_of(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Whoever waits for its turn is alive."""
        group = self.registry.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(request.member_id)
            if member is not None and (member.epoch, member.instance_id) == (request.member_epoch, request.instance_id):
                self.membership.start_session(group, member.member_id)

    def _validate(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        consumer_heartbeat.validate(request, version, self.settings.assignors)
        error = self.registry.unavailable(request.group_id)
        if error:
            raise Refused(error, f"group {request.group_id}: {error_name(error)}")

    def _resolving(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> Work[Found]:
        """What the group's patterns stand for now if topics have changed, and what the member's does if it is a new one."""
        group = self.registry.get(request.group_id)
        member, topics = None, self.found_topics.seen_by(client)
        if isinstance(group, ConsumerGroup):
            yield from resolving_patterns(group, topics)
            member = group.members.get(request.member_id)
        pattern = request.subscribed_topic_regex
        if not pattern or consumer_heartbeat.is_leave(request) or (member is not None and member.topic_regex == pattern):
            return None
        try:
            found = yield from topics.resolving(pattern)
            self.found_topics.ensure_room(found, self.registry.groups.values())
            return found
        except RegularExpressionError as error:
            return error

    def _answer(self, answer: Answer, error_code: int, message: str) -> None:
        self.runtime.outbox.put(answer, ConsumerGroupHeartbeatResponse(error_code=error_code, error_message=message))

    def _beating(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, answer: Answer, found: Found, owned: Partitions | None
    ) -> Work[Prepared]:
        topics_seen = self.found_topics.changes
        change, replaced = self._begin(request)
        replaces = None if replaced is None else content_of(replaced)
        if replaced is not None and not replaced.is_empty:
            yield from filling_from_classic(change, replaced, self.cluster)
        group, draft = change.group, change.draft
        member_id = request.member_id or self.runtime.new_id()
        known = consumer_heartbeat.find_member(draft, request, member_id, owned)
        if known is None and len(draft.members) >= self.settings.max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {group.group_id} is full: it has {len(draft.members)} members, and at most {self.settings.max_size} are allowed",
            )
        member = consumer_heartbeat.described(known, request, member_id, client)
        if member.topic_regex and (known is None or known.topic_regex != member.topic_regex):
            take_found(change, member.topic_regex, found)
        yield from self.membership.taking_in(change, known, member)
        stepped = yield from self.membership.stepping(change, member_id, owned)
        is_behind = request.member_epoch != member.epoch
        has_news = consumer_heartbeat.is_full(request) or is_behind or stepped.assigned != member.assigned
        response = yield from self._responding(group.group_id, stepped, stepped.assigned if has_news else None)

        def written(error_code: int) -> None:
            if error_code:
                if not group.revision:
                    self._take_back(group, replaced)
                self._answer(answer, group_error(error_code), f"the change could not be written: {error_name(error_code)}")
            else:
                self.runtime.outbox.put(answer, response)

        def commit() -> None:
            self.membership.commit(change, known, stepped)
            self._put_in_place(group, replaced)
            if self.found_topics.changes != topics_seen:
                group.topics_changed()  # nobody could tell a new group
            self.membership.write(change, written)

        return Prepared(change, commit, replaced, replaces)

    def _begin(self, request: ConsumerGroupHeartbeatRequest) -> tuple[Change, ClassicGroup | None]:
        """A change of the group, perhaps of a new one, and the classic group whose place it takes."""
        group = self.registry.get(request.group_id)
        now = self.runtime.now_ms()
        if isinstance(group, ConsumerGroup):
            return Change(group, now), None
        if request.member_epoch != 0:
            raise consumer_heartbeat.unknown(f"there is no consumer group {request.group_id}")
        change = Change(ConsumerGroup(request.group_id), now)
        if group is None:
            return change, None
        assert isinstance(group, ClassicGroup)
        change.records.append(group_tombstone(group.group_id, now))
        if not group.is_empty:
            fault = upgrade_fault(group, self.settings.max_size) if self.settings.may_upgrade else "upgrades are not allowed"
            if fault is not None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id} is a classic group and stays one: {fault}")
        return change, group

    def _put_in_place(self, group: ConsumerGroup, replaced: ClassicGroup | None) -> None:
        self.registry.groups[group.group_id] = group
        if replaced is not None and not replaced.is_empty:
            for answer, response in self.registry.rebalancer.close(replaced, ErrorCode.REBALANCE_IN_PROGRESS):
                self.runtime.outbox.put(answer, response)
            self.membership.tend(group)

    def _take_back(self, group: ConsumerGroup, replaced: ClassicGroup | None) -> None:
        if self.registry.get(group.group_id) is not group:
            return
        self.registry.drop(group)
        if replaced is not None and replaced.members:
            self.membership.start_classic(revived(replaced, self.runtime.now_ms()), "its upgrade could not be written")
        elif replaced is not None:
            self.registry.groups[group.group_id] = replaced

    def _responding(
        self, group_id: str, member: ConsumerMember, assigned: Partitions | None
    ) -> Work[ConsumerGroupHeartbeatResponse]:
        assignment = None
        if assigned is not None:
            topics: list[Assigned] = []
            for piece in pieces((yield from by_topic(assigned)).items()):
                topics += [Assigned(topic_id=topic_id, partitions=partitions) for topic_id, partitions in piece]
                yield
            assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=topics)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.membership.settings_of(group_id).heartbeat_interval_ms,
            assignment=assignment,
        )

    # Going.

    def _leaving(self, request: ConsumerGroupHeartbeatRequest, answer: Answer) -> Work[Prepared]:
        group = self.registry.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise consumer_heartbeat.unknown(f"there is no consumer group {request.group_id}")
        member = consumer_heartbeat.find_leaver(group, request)
        change = Change(group, self.runtime.now_ms())

        def written(error_code: int) -> None:
            if error_code:
                self._answer(answer, group_error(error_code), f"the change could not be written: {error_name(error_code)}")
            else:
                response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
                self.runtime.outbox.put(answer, response)

        if request.member_epoch != STATIC_LEAVE_EPOCH:
            return Prepared(change, lambda: self.membership.remove(group, [member], "left", written))
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, state=MemberState.STABLE, pending_revocation=frozenset())
        yield from change.assignment(away)

        def commit() -> None:
            # Its session goes on: if it is not back by then, it has left for good.
            stop(group.revocations, member.member_id)
            change.commit()
            self.membership.write(change, written)

        return Prepared(change, commit)

    # The log.

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
                self.membership.tend(group)

    def on_topics_changed(self) -> None:
        """Topics were made or deleted, or got partitions: every group looks again at its next heartbeat."""
        self.found_topics.topics_changed()
        for group in self.registry.groups.values():
            if isinstance(group, ConsumerGroup):
                group.topics_changed()

    # Requests of the classic protocol.

    def join_classic(
        self, request: JoinGroupRequest, version: int, client: Client, answer: Callable[[JoinGroupResponse], None]
    ) -> Work[None] | None:
        """An empty group becomes a classic one; others take members of the classic protocol if they may become so later."""
        group = self._consumer_group(request.group_id)
        if not group.is_empty:
            if self.settings.may_downgrade or any(member.classic for member in group.members.values()):
                return self._joining(request, version, client, answer)
            self._refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, answer)
            return None

        def written(error_code: int) -> None:
            if error_code:
                self._refuse_join(request, group_error(error_code), answer)
                return
            if self.registry.get(request.group_id) is group:
                self.registry.drop(group)
            work = self.coordinator.join(request, version, client, answer)
            if work is not None:
                self.runtime.in_background(work)

        self.runtime.write(group.group_id, group.tombstones(self.runtime.now_ms()), written)
        return None

    def _joining(
        self, request: JoinGroupRequest, version: int, client: Client, answer: Callable[[JoinGroupResponse], None]
    ) -> Work[None]:
        join = Join.of(request, version, client, answer)
        while True:
            is_done = yield from self._turns.of(request.group_id, self._joining_once(request.group_id, join, version))
            if is_done is None:
                work = self.coordinator.join(request, version, client, answer)
                if work is not None:
                    yield from work
            if is_done is not False:
                return
            yield

    def _joining_once(self, group_id: str, join: Join, version: int) -> Work[bool | None]:
        """Whether it is done; None: the group is no longer one with members of the consumer protocol."""
        group = self.registry.get(group_id)
        if not isinstance(group, ConsumerGroup) or group.is_empty or self.registry.unavailable(group_id):
            return None
        return (yield from self._classic.joining(group, join, version))

    def _refuse_join(self, request: JoinGroupRequest, error_code: int, answer: Callable[[JoinGroupResponse], None]) -> None:
        self.runtime.outbox.put(answer, JoinGroupResponse(error_code=error_code, member_id=request.member_id))

    def _consumer_group(self, group_id: str) -> ConsumerGroup:
        group = self.registry.get(group_id)
        assert isinstance(group, ConsumerGroup), f"{group_id} is no consumer group, and its requests do not come here"
        return group

    def sync_classic(self, request: SyncGroupRequest, version: int, answer: Callable[[SyncGroupResponse], None]) -> None:
        self._classic.sync(self._consumer_group(request.group_id), request, answer)

    def heartbeat_classic(self, request: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=self._classic.heartbeat(self._consumer_group(request.group_id), request))

    def leave_classic(self, group_id: str, leavers: Sequence[LeaveGroupRequest.Member]) -> list[LeaveGroupResponse.Member]:
        return self._classic.leave(self._consumer_group(group_id), leavers)


def take_found(change: Change, pattern: str, found: Found) -> None:
    if isinstance(found, RegularExpressionError):
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern cannot be used: {found}")
    if found is None:
        change.group.needs_resolving = True  # it was the member's when we looked, and then it was not
    else:
        change.draft.resolved[pattern] = found
