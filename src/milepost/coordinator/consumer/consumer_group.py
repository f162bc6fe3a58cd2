"""A group of the consumer protocol: its epoch, its members, the target assignment and who holds which partition.

    state         when
    Empty         there are no members
    Assigning     the group's epoch is ahead of the target assignment's
    Reconciling   a member has not reached the target yet
    Stable        all have
    Dead          it was deleted

The state is what the records in the log say, and nothing else: `apply` takes them in one by one, the ones we write as well as the ones
we read when we start. A record may come before another it refers to, since compaction keeps only the last of each key.

A change is made on a `draft`, in pieces, and the group becomes what the draft is in one. So its members, targets and patterns are never
changed where they are, and a `Snapshot` for taking back what could not be written is only a look at them. A group that is loaded has no
such onlookers, and takes its records in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from milepost.coordinator.consumer.consumer_member import NOTHING, ConsumerMember, Partitions, as_newcomer
from milepost.coordinator.consumer.consumer_records import partitions_in, state_in, tombstone
from milepost.coordinator.consumer.shared_sets import shared
from milepost.coordinator.interfaces import PendingAnswer, Work
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
from milepost.work import at_once, pieces

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
    static_members: dict[str, str]
    targets: dict[str, Partitions]
    regexes: dict[str, frozenset[str]]


class ConsumerGroup:
    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str):
        self.group_id = group_id
        self.revision = 0
        """Rises with every record, and falls when records are taken back."""
        self.state_count = 0
        """Rises with every change, also back."""
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
        self.topic_changes = 1
        """How often topics have changed, as far as they may concern this group."""
        self.refreshed = 0
        """How often they had when the epoch was last decided."""
        self.needs_resolving = True
        """The same of what its patterns stand for."""
        self.is_resolving = False
        self.resolved: dict[str, frozenset[str]] = {}
        """What patterns were found to stand for since."""
        self.believed: dict[str, frozenset[str]] = {}
        """What of it a draft has taken in."""
        self._is_shared = False
        """A draft that still has the members, targets and patterns of its group."""
        self.sessions: dict[str, Timer] = {}
        self.revocations: dict[str, Timer] = {}
        self.rejoins: dict[str, Timer] = {}
        """Timers of members by their ids."""
        self.writes_in_flight = 0
        self.after_writes: list[Callable[[int], None]] = []
        """Answers that tell of what is not in the log yet."""

    # What the log says.

    def apply(self, key: Key, value: Value | None) -> None:
        at_once(self.applying(key, value))

    def applying(self, key: Key, value: Value | None) -> Work[None]:
        self.revision += 1
        self.state_count += 1
        if self._is_shared:  # most heartbeats change nothing, and copy nothing
            self.members, self.static_members = dict(self.members), dict(self.static_members)
            self.targets, self.regexes = dict(self.targets), dict(self.regexes)
            self._is_shared = False
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
                self.targets[key.member_id] = shared((yield from partitions_in(value.topic_partitions)))
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            yield from self._applying_assignment(key.member_id, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self.regexes.pop(key.regular_expression, None)
            if isinstance(value, ConsumerGroupRegularExpressionValue):
                self.regexes[key.regular_expression] = shared(frozenset(value.topics))

    def _apply_member(self, member_id: str, value: Value | None) -> None:
        member = self.members.pop(member_id, None) if value is None else self.members.get(member_id)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            self._set(
                replace(
                    member or ConsumerMember(member_id=member_id),
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=shared(frozenset(value.subscribed_topic_names)),
                    topic_regex=value.subscribed_topic_regex,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    server_assignor=value.server_assignor,
                    classic=value.classic_member_metadata,
                )
            )

    def _applying_assignment(self, member_id: str, value: Value | None) -> Work[None]:
        member = self.members.get(member_id)
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            self._set(
                replace(
                    member or ConsumerMember(member_id=member_id),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=state_in(value),
                    assigned=shared((yield from partitions_in(value.assigned_partitions))),
                    pending_revocation=(yield from partitions_in(value.partitions_pending_revocation)),
                )
            )
        elif member is not None:
            self._set(as_newcomer(member, NOTHING))

    def _set(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    # Changes.

    def draft(self) -> ConsumerGroup:
        """The same group for a change under way: nobody else sees it."""
        draft = ConsumerGroup(self.group_id)
        draft._become(self.snapshot())
        draft._is_shared = True
        draft.topic_changes, draft.refreshed, draft.resolved = self.topic_changes, self.refreshed, dict(self.resolved)
        return draft

    def take(self, draft: ConsumerGroup) -> Snapshot:
        """Become what a draft is; what the group was before."""
        before = self.snapshot()
        if not draft._is_shared:
            self._become(draft.snapshot())
        self.refreshed = draft.refreshed
        # What was found meanwhile is for the next change.
        self.resolved = {name: found for name, found in self.resolved.items() if draft.believed.get(name) is not found}
        return before

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.revision,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.target_timestamp,
            self.has_partition_metadata,
            self.members,
            self.static_members,
            self.targets,
            self.regexes,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Back to before a change, unless an earlier one was taken back already, and this with it."""
        if snapshot.revision < self.revision:
            self._become(snapshot)
            self.topics_changed()

    def _become(self, snapshot: Snapshot) -> None:
        self.state_count += 1
        self.revision = snapshot.revision
        self.epoch, self.metadata_hash = snapshot.epoch, snapshot.metadata_hash
        self.target_epoch, self.target_timestamp = snapshot.target_epoch, snapshot.target_timestamp
        self.has_partition_metadata = snapshot.has_partition_metadata
        self.members, self.static_members = snapshot.members, snapshot.static_members
        self.targets, self.regexes = snapshot.targets, snapshot.regexes

    # Members and topics.

    def topics_changed(self) -> None:
        self.topic_changes += 1
        self.needs_resolving = True

    @property
    def needs_refresh(self) -> bool:
        """Topics may have changed since the epoch was last decided."""
        return self.refreshed != self.topic_changes

    @property
    def patterns(self) -> set[str]:
        return {member.topic_regex for member in self.members.values() if member.topic_regex}

    def free(self, partitions: Partitions, member_id: str) -> Work[Partitions]:
        """Those of the partitions that no other member holds."""
        for piece in pieces(self.members.values() if partitions else ()):
            for member in piece:
                if member.member_id != member_id:
                    for held in (member.assigned, member.pending_revocation):
                        if not partitions.isdisjoint(held):
                            partitions -= held
            yield
        return partitions

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOTHING)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    @property
    def subscriptions(self) -> set[frozenset[str]]:
        """The different sets of topics that members subscribe to, by names or by patterns."""
        return {
            names
            for member in self.members.values()
            for names in (member.topic_names, self.regexes.get(member.topic_regex or ""))
            if names
        }

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
        return any(topic in names for names in self.subscriptions)

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
        return [tombstone(key, timestamp) for key in keys]

    def close(self, error_code: int) -> list[PendingAnswer]:
        self.is_dead = True
        for timers in (self.sessions, self.revocations, self.rejoins):
            for timer in timers.values():
                timer.cancel()
            timers.clear()
        waiting, self.after_writes = self.after_writes, []
        return [(answer, error_code) for answer in waiting]
