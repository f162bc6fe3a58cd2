"""Members of the classic protocol in a consumer group: while a group is upgraded or downgraded, one member after the other.

They join, sync and heartbeat as ever, and the group answers in their terms. A generation is the member's epoch, and nobody leads: the
assignment is ours.

    request     answer
    JoinGroup   at once, with the epoch the member has come to; the subscription says what it owns
    SyncGroup   what is assigned to the member now; 27 when the group has gone on, unless it has to give up partitions first
    Heartbeat   27 when joining again would bring it further: there are targets of a newer epoch, or they may be computed, it has to
                give up partitions, or what it waits for is free

A member that is told 27, or has joined, has its rebalance timeout to follow. A member that shares no protocol with the other classic
members gets 23: if the group is downgraded, they have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from milepost.coordinator.classic.classic_records import group_error
from milepost.coordinator.classic.joining import Join
from milepost.coordinator.consumer.consumer_change import Change
from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import ConsumerMember, MemberState, Partitions, as_newcomer
from milepost.coordinator.consumer.consumer_membership import ConsumerMembership
from milepost.coordinator.group.migration import assignment_bytes, classic_metadata, protocols_of, subscription_in, with_ids
from milepost.coordinator.interfaces import Work
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from milepost.record.internal_topics.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from milepost.work import at_once


class ClassicRequests:
    def __init__(self, membership: ConsumerMembership):
        self.membership = membership
        self.runtime = membership.runtime

    # Joining.

    def joining(self, group: ConsumerGroup, join: Join, version: int) -> Work[bool]:
        """Whether it is done: prepared in pieces, as a heartbeat, and for nothing if the group is another one by then."""
        client, subscription = join.client, subscription_in(join.protocols)
        known, error = self._find(group, join)
        if join.protocol_type != PROTOCOL_TYPE or subscription is None or not shares_protocol(group, join, known):
            error = error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif known is None and len(group.members) >= self.membership.settings.max_size:
            error = error or ErrorCode.GROUP_MAX_SIZE_REACHED
        if error:
            self._refuse(join, error)
            return True
        assert subscription is not None
        if not join.member_id and join.instance_id is None and version >= 4:
            self._refuse(join, ErrorCode.MEMBER_ID_REQUIRED, f"{client.client_id}-{self.runtime.new_id()}")
            return True
        return (yield from self._admitting(group, join, known, subscription))

    def _refuse(self, join: Join, error_code: int, member_id: str | None = None) -> None:
        response = JoinGroupResponse(error_code=error_code, member_id=join.member_id if member_id is None else member_id)
        with self.runtime.outbox:
            self.runtime.outbox.put(join.answer, response)

    def _find(self, group: ConsumerGroup, join: Join) -> tuple[ConsumerMember | None, int]:
        """The member that joins again, or whose place is taken."""
        if join.instance_id is None:
            return group.members.get(join.member_id), ErrorCode.NONE
        known = group.static_member(join.instance_id)
        if known is not None and join.member_id not in ("", known.member_id):
            return known, ErrorCode.FENCED_INSTANCE_ID
        if known is None and join.member_id:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        return known, ErrorCode.NONE

    def _admitting(
        self, group: ConsumerGroup, join: Join, known: ConsumerMember | None, subscription: ConsumerProtocolSubscription
    ) -> Work[bool]:
        member_id = (
            join.member_id or f"{join.client.client_id if join.instance_id is None else join.instance_id}-{self.runtime.new_id()}"
        )
        member = known or ConsumerMember(member_id=member_id)
        is_taking_over = known is not None and (known.is_away or known.member_id != member_id)
        if is_taking_over:
            member = replace(as_newcomer(member, member.assigned), member_id=member_id)
        member = replace(
            member,
            instance_id=join.instance_id,
            rack_id=subscription.rack_id,
            client_id=join.client.client_id,
            client_host=join.client.host,
            topic_names=frozenset(subscription.topics),
            topic_regex=None,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            server_assignor=None,
            classic=classic_metadata(join.session_timeout_ms, join.protocols),
        )
        owned = frozenset[tuple[bytes, int]]() if is_taking_over else self._owned(subscription, member)
        change = Change(group, self.runtime.now_ms())
        yield from self.membership.taking_in(change, known, member)
        stepped = yield from self.membership.stepping(change, member_id, owned)

        def written(error_code: int) -> None:
            if error_code:
                self._refuse(join, group_error(error_code))
                return
            response = JoinGroupResponse(
                generation_id=stepped.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=join.protocols[0][0],
                leader="",
                member_id=member_id,
                members=[],
            )
            self.runtime.outbox.put(join.answer, response)
            if self.membership.has_only_classic_members(group):
                self.membership.downgrade(group, (), lambda error_code: None)

        with self.runtime.outbox:
            if change.is_stale:
                return False
            self.membership.commit(change, known, stepped)
            self.membership.has_rejoined(group, member_id)
            self.membership.expect_rejoin(group, stepped)
            self.membership.write(change, written)
        return True

    def _owned(self, subscription: ConsumerProtocolSubscription, member: ConsumerMember) -> Partitions:
        """What it owned in another generation it has lost, and knows it."""
        if subscription.generation_id not in (-1, member.epoch):
            return frozenset()
        return with_ids(subscription.owned_partitions, self.membership.cluster)

    # The rest.

    def _validate(
        self, group: ConsumerGroup, member_id: str, generation: int, instance_id: str | None
    ) -> tuple[ConsumerMember | None, int]:
        member = group.members.get(member_id)
        if instance_id is not None:
            static = group.static_member(instance_id)
            if static is not None and static.member_id != member_id:
                return None, ErrorCode.FENCED_INSTANCE_ID
            member = static
        if member is None or member.classic is None:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        return member, ErrorCode.NONE if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        member, error = self._validate(group, request.member_id, request.generation_id, request.group_instance_id)
        if not error and member is not None:
            names = [name for name, _ in protocols_of(member)]
            if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, *names):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif self.membership.is_behind(group, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self.membership.expect_rejoin(group, member)
                error = ErrorCode.REBALANCE_IN_PROGRESS
        if error or member is None:
            self.runtime.outbox.put(answer, SyncGroupResponse(error_code=error))
            return
        self.membership.start_session(group, member.member_id)
        self.membership.has_rejoined(group, member.member_id)
        response = SyncGroupResponse(
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocols_of(member)[0][0],
            assignment=assignment_bytes(member, self.membership.cluster),
        )
        self.runtime.outbox.put(answer, response)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> int:
        member, error = self._validate(group, request.member_id, request.generation_id, request.group_instance_id)
        if error or member is None:
            return error
        self.membership.start_session(group, member.member_id)
        if not self._should_rejoin(group, member):
            return ErrorCode.NONE
        self.membership.expect_rejoin(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _should_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        if member.state is MemberState.UNREVOKED_PARTITIONS or self.membership.is_behind(group, member):
            return True
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        missing = group.target_of(member.member_id) - member.assigned
        return at_once(group.free(missing, member.member_id)) == missing

    def leave(self, group: ConsumerGroup, leavers: Sequence[LeaveGroupRequest.Member]) -> list[LeaveGroupResponse.Member]:
        """Admins remove members this way, of whatever protocol."""
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
            self.membership.remove(group, gone.values(), "left")
        return results


def shares_protocol(group: ConsumerGroup, join: Join, known: ConsumerMember | None) -> bool:
    """Whether all classic members would have a protocol in common."""
    common = {name for name, _ in join.protocols}
    for member in group.members.values():
        if member.classic is not None and (known is None or member.member_id != known.member_id):
            common &= {name for name, _ in protocols_of(member)}
    return bool(common)
