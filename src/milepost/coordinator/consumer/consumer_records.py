"""The records of `__consumer_offsets` that a consumer group writes, in Kafka's formats (see `record/internal_topics`).

    key type   about
    3          the group: its epoch, and a hash of the topics it subscribes to
    4          the same topics in full, of Kafka 3.7 to 4.0; we only ever remove it
    5          a member: who it is and what it wants
    6          the target assignment: its epoch and its time
    7          a member's target
    8          a member's epoch and what it has of its target
    16         the topics a regular expression stands for

Not promised: that the hash is the one Kafka would compute. Where it differs, the group's epoch rises once when it moves from one to
the other. Assignment epochs of single partitions (4.2) are read past and not written.
"""

from __future__ import annotations

import uuid
from typing import TypeVar

from milepost.coordinator.consumer.consumer_member import ConsumerMember, MemberState, Partitions, by_topic
from milepost.coordinator.interfaces import Work
from milepost.record.internal_topics import consumer_offsets
from milepost.record.internal_topics.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    OwnedPartitions,
    TargetPartitions,
)
from milepost.record.internal_topics.consumer_offsets import Key, Value
from milepost.record.records import Record
from milepost.work import pieces

Stored = TypeVar("Stored", TargetPartitions, OwnedPartitions)


def recording(key: Key, value: Value | None, timestamp: int) -> Work[Record]:
    encoded = None if value is None else (yield from consumer_offsets.encoding(value))
    return Record(timestamp=timestamp, key=consumer_offsets.encode(key), value=encoded)


def tombstone(key: Key, timestamp: int) -> Record:
    return Record(timestamp=timestamp, key=consumer_offsets.encode(key), value=None)


def member_value(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )


def target_value(target: Partitions) -> Work[ConsumerGroupTargetAssignmentMemberValue]:
    topics = yield from stored_by_topic(target, TargetPartitions)
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def current_value(member: ConsumerMember) -> Work[ConsumerGroupCurrentMemberAssignmentValue]:
    assigned = yield from stored_by_topic(member.assigned, OwnedPartitions)
    pending = yield from stored_by_topic(member.pending_revocation, OwnedPartitions)
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=assigned,
        partitions_pending_revocation=pending,
    )


def stored_by_topic(partitions: Partitions, stored: type[Stored]) -> Work[tuple[Stored, ...]]:
    topics = []
    for piece in pieces((yield from by_topic(partitions)).items()):
        topics += [stored(topic_id=uuid.UUID(bytes=topic_id), partitions=tuple(numbers)) for topic_id, numbers in piece]
        yield
    return tuple(topics)


def partitions_in(topics: tuple[OwnedPartitions, ...] | tuple[TargetPartitions, ...]) -> Work[Partitions]:
    by_id = ((topic.topic_id.bytes, topic.partitions) for topic in topics)
    found: set[tuple[bytes, int]] = set()
    for piece in pieces((topic_id, partition) for topic_id, partitions in by_id for partition in partitions):
        found.update(piece)
        yield
    return frozenset(found)


def state_in(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """A state of later versions is read as the one in which a member only waits: the next step looks at everything again."""
    return MemberState(value.state) if value.state in (0, 1, 2) else MemberState.UNRELEASED_PARTITIONS
