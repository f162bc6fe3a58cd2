"""A member of a consumer group: who it is, what it wants, and how far it has come towards its target assignment.

    epoch                     the group's epoch this member has reached; 0 before it has joined, -2 for a static member that is away
    previous_epoch            the one before, accepted from a member that did not get our last answer
    assigned                  what it may work on now
    pending_revocation        what it was told to give up and has not yet
    state                     0 Stable · 1 UnrevokedPartitions: has to give up some · 2 UnreleasedPartitions: waits for others to do so

Members are values: a change makes a new one, and goes to the log before anybody hears of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from milepost.coordinator.interfaces import Work
from milepost.record.internal_topics.consumer_group_records import ClassicMemberMetadata
from milepost.work import pieces

TopicIdPartition = tuple[bytes, int]
Partitions = frozenset[TopicIdPartition]
NOTHING: Partitions = frozenset()

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Of a member that still speaks the classic protocol, while its group is being upgraded or downgraded."""
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    pending_revocation: Partitions = NOTHING

    @property
    def is_away(self) -> bool:
        """A static member that said it will be back."""
        return self.epoch == STATIC_LEAVE_EPOCH

    @property
    def standing(self) -> tuple[int, MemberState, Partitions, Partitions]:
        """How far it has come: what a step changes."""
        return (self.epoch, self.state, self.assigned, self.pending_revocation)

    def having(self, assigned: Partitions) -> ConsumerMember:
        return replace(self, assigned=assigned)

    def has_reached(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


def as_newcomer(member: ConsumerMember, assigned: Partitions) -> ConsumerMember:
    """The same member before its first epoch, with what is kept for it."""
    return replace(member, epoch=0, previous_epoch=0, state=MemberState.STABLE, assigned=assigned, pending_revocation=NOTHING)


def by_topic(partitions: Iterable[TopicIdPartition]) -> Work[dict[bytes, list[int]]]:
    """In the order of requests, answers and records: topics and partitions rise."""
    topics: dict[bytes, list[int]] = {}
    for piece in pieces(partitions):
        for topic_id, partition in piece:
            topics.setdefault(topic_id, []).append(partition)
        yield
    in_order: dict[bytes, list[int]] = {}
    for topic_id in sorted(topics):
        in_order[topic_id] = sorted(topics[topic_id])
        yield
    return in_order
