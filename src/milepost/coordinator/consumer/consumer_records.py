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
from functools import lru_cache

from milepost.coordinator.consumer.consumer_member import ConsumerMember, MemberState, Partitions, by_topic
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


def record(key: Key, value: Value | None, timestamp: int) -> Record:
    return Record(
        timestamp=timestamp, key=consumer_offsets.encode(key), value=None if value is None else consumer_offsets.encode(value)
    )


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


def target_value(target: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in stored_by_topic(target)
        )
    )


def current_value(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=owned_partitions(member.assigned),
        partitions_pending_revocation=owned_partitions(member.pending_revocation),
    )


def owned_partitions(partitions: Partitions) -> tuple[OwnedPartitions, ...]:
    return tuple(OwnedPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in stored_by_topic(partitions))


@lru_cache(maxsize=4)
def stored_by_topic(partitions: Partitions) -> list[tuple[uuid.UUID, tuple[int, ...]]]:
    """A member's target and what is assigned to it are mostly the same, and stored one after the other."""
    return [(uuid.UUID(bytes=topic_id), tuple(numbers)) for topic_id, numbers in by_topic(partitions).items()]


def partitions_in(topics: tuple[OwnedPartitions, ...] | tuple[TargetPartitions, ...]) -> Partitions:
    by_id = ((topic.topic_id.bytes, topic.partitions) for topic in topics)
    return frozenset((topic_id, partition) for topic_id, partitions in by_id for partition in partitions)


def state_in(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """A state of later versions is read as the one in which a member only waits: the next step looks at everything again."""
    return MemberState(value.state) if value.state in (0, 1, 2) else MemberState.UNRELEASED_PARTITIONS
