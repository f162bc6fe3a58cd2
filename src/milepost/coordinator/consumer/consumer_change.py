"""A change of a consumer group under way: each record is applied to a draft of the group and kept, to be written with the others.

A change is made in pieces, and others see the group as it was until `commit`. What they change meanwhile makes it stale, and it is made
anew.

Order matters to whoever reads the log, and is Kafka's: the member, the group's epoch, targets, the epoch of the targets, assignments;
and when a member goes, its assignment, its target, the member, the group's epoch.
"""

from __future__ import annotations

from milepost.coordinator.consumer.consumer_group import ConsumerGroup, Snapshot
from milepost.coordinator.consumer.consumer_member import ConsumerMember, Partitions
from milepost.coordinator.consumer.consumer_records import current_value, member_value, recording, target_value
from milepost.coordinator.interfaces import Work
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
        self.draft = group.draft()
        self.now_ms = now_ms
        self.before: Snapshot | None = None
        """What it is taken back to, once it is committed."""
        self.records: list[Record] = []
        self._seen = group.state_count

    @property
    def is_stale(self) -> bool:
        """The group is another one than that of which the draft was made."""
        return self.group.state_count != self._seen or self.group.is_dead

    def commit(self) -> None:
        """Now the group is what the draft is."""
        self.before = self.group.take(self.draft)

    def put(self, key: Key, value: Value | None) -> Work[None]:
        yield from self.draft.applying(key, value)
        self.records.append((yield from recording(key, value, self.now_ms)))

    def member(self, member: ConsumerMember) -> Work[None]:
        return self.put(ConsumerGroupMemberMetadataKey(self.group.group_id, member.member_id), member_value(member))

    def target(self, member_id: str, target: Partitions) -> Work[None]:
        value = yield from target_value(target)
        yield from self.put(ConsumerGroupTargetAssignmentMemberKey(self.group.group_id, member_id), value)

    def assignment(self, member: ConsumerMember) -> Work[None]:
        value = yield from current_value(member)
        yield from self.put(ConsumerGroupCurrentMemberAssignmentKey(self.group.group_id, member.member_id), value)

    def remove(self, member_id: str) -> Work[None]:
        group_id = self.group.group_id
        yield from self.put(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
        yield from self.put(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
        yield from self.put(ConsumerGroupMemberMetadataKey(group_id, member_id), None)

    def replace_static(self, old: ConsumerMember, member: ConsumerMember) -> Work[None]:
        """The same instance under a new member id: it keeps its target and what was assigned to it."""
        target = self.draft.target_of(old.member_id)
        yield from self.remove(old.member_id)
        yield from self.member(member)
        yield from self.target(member.member_id, target)
        yield from self.assignment(member)

    def next_epoch(self, metadata_hash: int) -> Work[None]:
        group_id = self.group.group_id
        if self.draft.has_partition_metadata:
            yield from self.put(ConsumerGroupPartitionMetadataKey(group_id), None)
        value = ConsumerGroupMetadataValue(epoch=self.draft.epoch + 1, metadata_hash=metadata_hash)
        yield from self.put(ConsumerGroupMetadataKey(group_id), value)

    def target_epoch(self, timestamp: int) -> Work[None]:
        """The targets are those of the group's epoch, computed at `timestamp`."""
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=self.draft.epoch, assignment_timestamp=timestamp)
        return self.put(ConsumerGroupTargetAssignmentMetadataKey(self.group.group_id), value)

    def regex(self, pattern: str, topics: frozenset[str] | None) -> Work[None]:
        value = None
        if topics is not None:
            value = ConsumerGroupRegularExpressionValue(topics=tuple(sorted(topics)), version=0, timestamp=self.now_ms)
        return self.put(ConsumerGroupRegularExpressionKey(self.group.group_id, pattern), value)
