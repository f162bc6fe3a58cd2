"""A group of the classic protocol: its members, its generation, and which state may follow which.

    from \\ to             Empty  PreparingRebalance  CompletingRebalance  Stable  Dead
    Empty                          a member joins                                   x
    PreparingRebalance     none                       all joined, or time is up     x
                           joined
    CompletingRebalance            a member comes                          leader   x
                                   or goes                                 synced
    Stable                         a member comes                                   x
                                   or goes

A *pending* member was given an id (MEMBER_ID_REQUIRED) and has not come back with it. A *static* member (KIP-345) is known by its
instance id and may come back under a new member id. The leader is the first to join, and stays while it is there.

This file holds the state and its invariants; who waits for what, and for how long, is in `rebalancing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum

from milepost.coordinator.classic.classic_member import ClassicMember, Protocols, metadata_bytes
from milepost.coordinator.classic.classic_records import group_tombstone
from milepost.coordinator.interfaces import PendingAnswer
from milepost.errors import InvalidRecord
from milepost.loop import Timer
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import JoinGroupResponse, SyncGroupResponse
from milepost.record.internal_topics import consumer_protocol
from milepost.record.internal_topics.classic_records import OffsetCommitValue
from milepost.record.records import Record


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
NEXT = {
    EMPTY: {PREPARING, DEAD},
    PREPARING: {EMPTY, COMPLETING, DEAD},
    COMPLETING: {PREPARING, STABLE, DEAD},
    STABLE: {PREPARING, DEAD},
    DEAD: {DEAD},
}


class ClassicGroup:
    kind = "classic"

    def __init__(self, group_id: str, now_ms: int):
        self.group_id = group_id
        self.state = EMPTY
        self.previous_state = EMPTY
        self.state_timestamp = now_ms
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        """None: not known. Members of another protocol than the consumers' may be subscribed to anything or nothing."""
        self.newcomers = False
        """Somebody joined since the initial delay was last extended."""
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.metadata_bytes = 0
        self._awaiting_join = 0
        self._supporters: Counter[str] = Counter()

    # States.

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY and not self.pending

    def may_become(self, state: GroupState) -> bool:
        return state in NEXT[self.state]

    def become(self, state: GroupState, now_ms: int) -> None:
        assert self.may_become(state), f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp = now_ms

    @property
    def is_in_first_rebalance(self) -> bool:
        return self.state is PREPARING and self.previous_state is EMPTY

    # Members.

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(supported(member.protocols))
        self.metadata_bytes += metadata_bytes(member.protocols)
        self._awaiting_join += member.join_answer is not None
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        member.stop_session()
        self._supporters.subtract(supported(member.protocols))
        self.metadata_bytes -= metadata_bytes(member.protocols)
        self._awaiting_join -= member.join_answer is not None
        self.pending_sync.discard(member.member_id)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, member: ClassicMember, member_id: str) -> None:
        """The same member under a new id: it keeps its assignment, and leads if it did."""
        assert member.instance_id is not None
        # In its old place: the order of members is the order in which they joined.
        self.members = {member_id if key == member.member_id else key: value for key, value in self.members.items()}
        self.static_members[member.instance_id] = member_id
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        if member.member_id in self.pending_sync:
            self.pending_sync.remove(member.member_id)
            self.pending_sync.add(member_id)
        member.member_id = member_id

    def update(self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        self._supporters.subtract(supported(member.protocols))
        self._supporters.update(supported(protocols))
        self.metadata_bytes += metadata_bytes(protocols) - metadata_bytes(member.protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def validate_member(self, member_id: str, instance_id: str | None) -> int:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Waiting for the others.

    def set_join_answer(self, member: ClassicMember, answer: Callable[[JoinGroupResponse], None] | None) -> None:
        self._awaiting_join += (answer is not None) - (member.join_answer is not None)
        member.join_answer = answer

    @property
    def awaiting_join(self) -> int:
        return self._awaiting_join

    @property
    def have_all_joined(self) -> bool:
        return self._awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Whether a member that has rejoined leads: the old leader, or else the first that has."""
        leader = None if self.leader_id is None else self.members[self.leader_id]
        if leader is not None and leader.join_answer is not None:
            return True
        joined = next((member.member_id for member in self.members.values() if member.join_answer is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could join."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name in supported(protocols)
        )

    def select_protocol(self) -> str:
        """Each member votes for its first choice among what all support; a tie goes to the first that was voted for."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.become(COMPLETING, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.become(EMPTY, now_ms)
        self.subscribed_topics = self.find_subscribed_topics()

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == consumer_protocol.PROTOCOL_TYPE

    def find_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        subscriptions = [topics_in(member.metadata_for(self.protocol_name)) for member in self.members.values()]
        known = [topics for topics in subscriptions if topics is not None]
        return frozenset[str]().union(*known) if len(known) == len(subscriptions) else None

    def described_members(self) -> list[JoinGroupResponse.Member]:
        return [
            JoinGroupResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_for(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # What the coordinator asks of every group (interfaces.Group).

    def validate_commit(
        self, member_id: str, generation: int, instance_id: str | None, *, version: int, transactional: bool = False
    ) -> int:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # a consumer without group management, or an admin
        if generation >= 0 or member_id or instance_id is not None:
            error = self.validate_member(member_id, instance_id)
            if error:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            return (
                ErrorCode.UNKNOWN_MEMBER_ID
            )  # while it has members, only they commit; old transactional producers do not say who they are
        if self.state is COMPLETING and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> int:
        return ErrorCode.NONE

    def validate_delete(self) -> int:
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def validate_offset_delete(self) -> int:
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is EMPTY or self.uses_consumer_protocol else ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol and bool(self.members)
        return topic in self.subscribed_topics

    def retention_start(self, commit: OffsetCommitValue) -> int | None:
        if not self.protocol_type:
            return commit.commit_timestamp  # never joined: consumers that only store offsets here
        if self.state is EMPTY:
            return commit.commit_timestamp if self.state_timestamp < 0 else self.state_timestamp
        if self.state is STABLE and self.subscribed_topics is not None:
            return commit.commit_timestamp  # of topics that no member subscribes to: `is_subscribed_to` says which
        return None

    def tombstones(self, timestamp: int) -> list[Record]:
        return [group_tombstone(self.group_id, timestamp)]

    def close(self, error_code: int) -> list[PendingAnswer]:
        self.state = DEAD
        for timer in (self.join_timer, self.sync_timer, *self.pending.values()):
            if timer is not None:
                timer.cancel()
        self.join_timer = self.sync_timer = None
        self.pending.clear()
        pending: list[PendingAnswer] = []
        for member in self.members.values():
            member.stop_session()
            pending += self.take_answers(member, error_code)
        return pending

    def take_answers(self, member: ClassicMember, error_code: int) -> list[PendingAnswer]:
        """Whoever waits under this member's name gets the error."""
        pending: list[PendingAnswer] = []
        if member.join_answer is not None:
            pending.append((member.join_answer, JoinGroupResponse(error_code=error_code, member_id=member.member_id)))
            self.set_join_answer(member, None)
        if member.sync_answer is not None:
            pending.append((member.sync_answer, SyncGroupResponse(error_code=error_code)))
            member.sync_answer = None
        return pending


def supported(protocols: Protocols) -> set[str]:
    """A client that lists a protocol twice supports it once."""
    return {name for name, _ in protocols}


def topics_in(subscription: bytes) -> Iterable[str] | None:
    """The topics of a consumer's subscription; None when the bytes are not one."""
    try:
        return consumer_protocol.SUBSCRIPTION.decode_lenient(subscription).topics
    except InvalidRecord:
        return None
