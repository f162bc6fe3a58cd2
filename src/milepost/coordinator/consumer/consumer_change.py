"""A change of a consumer group under way: each record is applied to the group at once and kept, to be written with the others.

Order matters to whoever reads the log, and is Kafka's: the member, the group's epoch, targets, the epoch of the targets, assignments;
and when a member goes, its assignment, its target, the member, the group's epoch.
"""

from __future__ import annotations

from milepost.coordinator.consumer.consumer_group import ConsumerGroup, Snapshot
from milepost.coordinator.consumer.consumer_member import ConsumerMember, Partitions
from milepost.coordinator.consumer.consumer_records import current_value, member_value, record, target_value
from milepost.record.internal_topics.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from milepost.record.internal_topics.consumer_offsets import Key, Value
from milepost.record.records import Record


class Change:
    def __init__(self, group: ConsumerGroup, now_ms: int):
        self.group = group
        self.now_ms = now_ms
        self.before: Snapshot | None = None
        self.records: list[Record] = []

    def put(self, key: Key, value: Value | None) -> None:
        if self.before is None:
            self.before = self.group.snapshot()
        self.group.apply(key, value)
        self.records.append(record(key, value, self.now_ms))

    def member(self, member: ConsumerMember) -> None:
        self.put(ConsumerGroupMemberMetadataKey(self.group.group_id, member.member_id), member_value(member))

    def target(self, member_id: str, target: Partitions) -> None:
        self.put(ConsumerGroupTargetAssignmentMemberKey(self.group.group_id, member_id), target_value(target))

    def assignment(self, member: ConsumerMember) -> None:
        self.put(ConsumerGroupCurrentMemberAssignmentKey(self.group.group_id, member.member_id), current_value(member))

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.put(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
        self.put(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
        self.put(ConsumerGroupMemberMetadataKey(group_id, member_id), None)

    def replace_static(self, old: ConsumerMember, member: ConsumerMember) -> None:
        """The same instance under a new member id: it keeps its target and what was assigned to it."""
        target = self.group.target_of(old.member_id)
        self.remove(old.member_id)
        self.member(member)
        self.target(member.member_id, target)
        self.assignment(member)

    def next_epoch(self, metadata_hash: int) -> None:
        group_id = self.group.group_id
        if self.group.has_partition_metadata:
            self.put(ConsumerGroupPartitionMetadataKey(group_id), None)
        value = ConsumerGroupMetadataValue(epoch=self.group.epoch + 1, metadata_hash=metadata_hash)
        self.put(ConsumerGroupMetadataKey(group_id), value)

    def target_epoch(self, timestamp: int) -> None:
        """The targets are those of the group's epoch, computed at `timestamp`."""
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=self.group.epoch, assignment_timestamp=timestamp)
        self.put(ConsumerGroupTargetAssignmentMetadataKey(self.group.group_id), value)

    def regex(self, pattern: str, topics: frozenset[str] | None) -> None:
        value = None
        if topics is not None:
            value = ConsumerGroupRegularExpressionValue(topics=tuple(sorted(topics)), version=0, timestamp=self.now_ms)
        self.put(ConsumerGroupRegularExpressionKey(self.group.group_id, pattern), value)
