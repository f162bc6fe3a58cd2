"""A group of the consumer protocol: its epoch, its members, the target assignment and who holds which partition.

    state         when
    Empty         there are no members
    Assigning     the group's epoch is ahead of the target assignment's
    Reconciling   a member has not reached the target yet
    Stable        all have
    Dead          it was deleted

The state is what the records in the log say, and nothing else: `apply` takes them in one by one, the ones we write as well as the ones
we read when we start. A record may come before another it refers to, since compaction keeps only the last of each key.

A `Snapshot` is for taking back what could not be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from milepost.coordinator.consumer.consumer_member import NOTHING, ConsumerMember, Partitions, TopicIdPartition, as_newcomer
from milepost.coordinator.consumer.consumer_records import partitions_in, record, state_in
from milepost.coordinator.consumer.shared_sets import shared
from milepost.coordinator.interfaces import PendingAnswer
from milepost.loop import Timer
from milepost.protocol.error_codes import ErrorCode
from milepost.record.internal_topics.classic_records import OffsetCommitValue
from milepost.record.internal_topics.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from milepost.record.internal_topics.consumer_offsets import Key, Value
from milepost.record.records import Record

FIRST_COMMIT_VERSION = 9
"""The first version of OffsetCommit that knows member epochs."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    revision: int
    epoch: int
    metadata_hash: int
    target_epoch: int
    target_timestamp: int
    has_partition_metadata: bool
    members: dict[str, ConsumerMember]
    targets: dict[str, Partitions]
    regexes: dict[str, frozenset[str]]


class ConsumerGroup:
    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str):
        self.group_id = group_id
        self.revision = 0
        """Rises with every record."""
        self.epoch = 1
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp = 0
        """When the target assignment was computed; 0 when nobody knows, or a classic group brought it."""
        self.has_partition_metadata = False
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        """The topics each regular expression stood for when we last looked."""
        self.is_dead = False
        self.needs_refresh = True
        """Topics may have changed since the epoch was last decided."""
        self.needs_resolving = True
        """The same of what its patterns stand for."""
        self.is_resolving = False
        self.resolved: dict[str, frozenset[str]] = {}
        """What patterns were found to stand for since."""
        self.sessions: dict[str, Timer] = {}
        self.revocations: dict[str, Timer] = {}
        self.rejoins: dict[str, Timer] = {}
        """Timers of members by their ids."""
        self.writes_in_flight = 0
        self.after_writes: list[Callable[[int], None]] = []
        """Answers that tell of what is not in the log yet."""
        self._holders: dict[TopicIdPartition, str] = {}
        self._subscribed: Counter[str] | None = None

    # What the log says.

    def apply(self, key: Key, value: Value | None) -> None:
        self.revision += 1
        if isinstance(key, ConsumerGroupMetadataKey):
            if isinstance(value, ConsumerGroupMetadataValue):
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            self.has_partition_metadata = value is not None
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self.target_epoch = self.target_timestamp = 0
            if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
                self.target_epoch, self.target_timestamp = value.assignment_epoch, value.assignment_timestamp
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self.targets.pop(key.member_id, None)
            if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
                self.targets[key.member_id] = shared(partitions_in(value.topic_partitions))
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._apply_assignment(key.member_id, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._subscribed = None
            self.regexes.pop(key.regular_expression, None)
            if isinstance(value, ConsumerGroupRegularExpressionValue):
                self.regexes[key.regular_expression] = shared(frozenset(value.topics))

    def _apply_member(self, member_id: str, value: Value | None) -> None:
        self._subscribed = None
        member = self.members.pop(member_id, None) if value is None else self.members.get(member_id)
        if member is not None:
            self._release(member)
            if self.static_members.get(member.instance_id or "") == member_id:
                del self.static_members[member.instance_id or ""]
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            self._set(
                replace(
                    member or ConsumerMember(member_id=member_id),
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=frozenset(value.subscribed_topic_names),
                    topic_regex=value.subscribed_topic_regex,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    server_assignor=value.server_assignor,
                    classic=value.classic_member_metadata,
                )
            )

    def _apply_assignment(self, member_id: str, value: Value | None) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._release(member)
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            self._set(
                replace(
                    member or ConsumerMember(member_id=member_id),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=state_in(value),
                    assigned=shared(partitions_in(value.assigned_partitions)),
                    pending_revocation=partitions_in(value.partitions_pending_revocation),
                )
            )
        elif member is not None:
            self._set(as_newcomer(member, NOTHING))

    def _set(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        for partition in member.held:
            self._holders[partition] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.held:
            if self._holders.get(partition) == member.member_id:
                del self._holders[partition]

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.revision,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.target_timestamp,
            self.has_partition_metadata,
            dict(self.members),
            dict(self.targets),
            dict(self.regexes),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Back to before a change, unless an earlier one was taken back already, and this with it."""
        if snapshot.revision >= self.revision:
            return
        self.revision = snapshot.revision
        self.epoch, self.metadata_hash = snapshot.epoch, snapshot.metadata_hash
        self.target_epoch, self.target_timestamp = snapshot.target_epoch, snapshot.target_timestamp
        self.has_partition_metadata = snapshot.has_partition_metadata
        self.targets, self.regexes = dict(snapshot.targets), dict(snapshot.regexes)
        self.members, self.static_members, self._holders, self._subscribed = {}, {}, {}, None
        for member in snapshot.members.values():
            self._set(member)
        self.topics_changed()

    # Members and topics.

    def topics_changed(self) -> None:
        self.needs_refresh = self.needs_resolving = True

    @property
    def patterns(self) -> set[str]:
        return {member.topic_regex for member in self.members.values() if member.topic_regex}

    def holder(self, partition: TopicIdPartition) -> str | None:
        return self._holders.get(partition)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOTHING)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    @property
    def subscribed_topics(self) -> Counter[str]:
        """Names of topics, and how many members subscribe to each."""
        if self._subscribed is None:
            self._subscribed = Counter(name for member in self.members.values() for name in self.topics_of(member))
        return self._subscribed

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        return member.topic_names | self.regexes.get(member.topic_regex or "", frozenset())

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        """The one of these that most members ask for; a tie goes to the first that was asked for. Without votes the first.

        A member that joined elsewhere, or under another configuration, may ask for one that is not among them.
        """
        asked = (member.server_assignor for member in self.members.values())
        votes = Counter(name for name in asked if name is not None and name in assignors)
        return votes.most_common(1)[0][0] if votes else assignors[0]

    # What the coordinator asks of every group (interfaces.Group).

    @property
    def state_name(self) -> str:
        if self.is_dead:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.has_reached(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_commit(
        self, member_id: str, generation: int, instance_id: str | None, *, version: int, transactional: bool = False
    ) -> int:
        if generation < 0 and not self.members:
            return ErrorCode.NONE  # an admin
        if transactional and generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE  # old transactional producers do not say who they are
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and member.classic is None and version < FIRST_COMMIT_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation == member.epoch:
            return ErrorCode.NONE
        speaks_epochs = member.classic is None and not transactional
        return ErrorCode.STALE_MEMBER_EPOCH if speaks_epochs else ErrorCode.ILLEGAL_GENERATION

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> int:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def validate_delete(self) -> int:
        if self.is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def validate_offset_delete(self) -> int:
        return ErrorCode.GROUP_ID_NOT_FOUND if self.is_dead else ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def retention_start(self, commit: OffsetCommitValue) -> int | None:
        return commit.commit_timestamp

    def tombstones(self, timestamp: int) -> list[Record]:
        keys: list[Key] = []
        for member_id in self.members:
            keys.append(ConsumerGroupCurrentMemberAssignmentKey(self.group_id, member_id))
        for member_id in {**self.targets, **self.members}:
            keys.append(ConsumerGroupTargetAssignmentMemberKey(self.group_id, member_id))
        keys.append(ConsumerGroupTargetAssignmentMetadataKey(self.group_id))
        for member_id in self.members:
            keys.append(ConsumerGroupMemberMetadataKey(self.group_id, member_id))
        for pattern in self.regexes:
            keys.append(ConsumerGroupRegularExpressionKey(self.group_id, pattern))
        if self.has_partition_metadata:
            keys.append(ConsumerGroupPartitionMetadataKey(self.group_id))
        keys.append(ConsumerGroupMetadataKey(self.group_id))
        return [record(key, None, timestamp) for key in keys]

    def close(self, error_code: int) -> list[PendingAnswer]:
        self.is_dead = True
        for timers in (self.sessions, self.revocations, self.rejoins):
            for timer in timers.values():
                timer.cancel()
            timers.clear()
        waiting, self.after_writes = self.after_writes, []
        return [(answer, error_code) for answer in waiting]
