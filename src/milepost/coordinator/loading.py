"""Reading a partition of `__consumer_offsets` into groups and offsets, a piece at a time so that the broker goes on answering.

    control batch         ends a transaction: its pending offsets count, or are dropped
    transactional batch   offsets that wait for such a marker
    other batches         offsets and groups, as they are; a null value removes

Key types 0 to 2 are the classic protocol's, 3 to 8 and 16 go to the consumer protocol, others are skipped. A record that cannot
be read is skipped with an error in the log: one bad record should not take all groups of its partition away.
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.coordinator.classic_group import STABLE, ClassicGroup
from milepost.coordinator.classic_member import ClassicMember
from milepost.coordinator.interfaces import ConsumerGroupService
from milepost.coordinator.offsets import Commit, OffsetStore
from milepost.coordinator.runtime import logger
from milepost.errors import InvalidRecord
from milepost.record.batches import AnyBatch
from milepost.record.control import ControlType, control_type
from milepost.record.internal_topics import Unknown, consumer_offsets
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.records import Record

RECORDS_AT_A_TIME = 500


class PartitionLoader:
    def __init__(
        self, partition: int, batches: Iterator[AnyBatch], store: OffsetStore, consumer_groups: ConsumerGroupService | None
    ):
        self.partition = partition
        self.store = store
        self.consumer_groups = consumer_groups
        self.found: dict[str, GroupMetadataValue] = {}
        """The classic groups."""
        self.with_offsets: set[str] = set()
        self._batches = batches

    def step(self) -> bool:
        """Read on; whether that was the end."""
        count = 0
        for batch in self._batches:
            records = batch.records()
            for record in records:
                try:
                    self._replay(batch, record)
                except InvalidRecord as error:
                    logger.error("__consumer_offsets-%d, offset %d is skipped: %s", self.partition, record.offset, error)
            count += len(records)
            if count >= RECORDS_AT_A_TIME:
                return False
        return True

    def _replay(self, batch: AnyBatch, record: Record) -> None:
        transaction = (self.partition, batch.producer_id)
        if batch.is_control:
            kind = control_type(record.key)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                self.store.complete(transaction, kind == ControlType.COMMIT)
            return
        if record.key is None:
            return
        key = consumer_offsets.decode_key(record.key)
        value = consumer_offsets.decode_value(key, record.value)
        if isinstance(value, Unknown) or isinstance(key, Unknown):
            return
        if isinstance(key, OffsetCommitKey):
            self.with_offsets.add(key.group)
            where = (key.topic, key.partition)
            if value is None:
                self.store.remove(key.group, where)
                return
            assert isinstance(value, OffsetCommitValue)
            commit = Commit(self.store.next_position(), value)
            if batch.is_transactional:
                self.store.add_pending(transaction, key.group, where, commit)
            else:
                self.store.commit(key.group, where, commit)
        elif isinstance(key, GroupMetadataKey):
            if value is None:
                self.found.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue)
                self.found[key.group] = value
        elif self.consumer_groups is not None:
            self.consumer_groups.replay(self.partition, key, value)


def group_from(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """A group as it was when its record was written: stable, or empty."""
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.generation = value.generation
    for member in value.members:
        group.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                # Records of version 0 have one timeout for both.
                rebalance_timeout_ms=member.rebalance_timeout if value.schema_version >= 1 else member.session_timeout,
                session_timeout_ms=member.session_timeout,
                protocols=((value.protocol or "", member.subscription),),
                assignment=member.assignment,
            ),
            value.protocol_type,
        )
    if group.members:
        group.state = STABLE
        if value.leader in group.members:
            group.leader_id = value.leader
    group.subscribed_topics = group.find_subscribed_topics()
    return group
