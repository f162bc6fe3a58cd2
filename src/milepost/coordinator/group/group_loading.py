"""Reading a partition of `__consumer_offsets` into groups and offsets, a piece at a time so that the broker goes on answering.

    control batch         ends a transaction: its pending offsets count, or are dropped
    transactional batch   offsets that wait for such a marker
    other batches         offsets and groups, as they are; a null value removes

Key types 0 to 2 are the classic protocol's, 3 to 8 and 16 go to the consumer protocol in the order of the log, others are skipped.

Most records of a busy partition are offsets that were committed again later. So the log is read by its keys' bytes first, and only what is
left of each key is decoded and taken over: a tenth of the time, when the cleaner has not been there yet.

A record that cannot be decoded is skipped with an error in the broker's log: it should not take all groups of its partition away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from milepost.coordinator.classic.classic_group import STABLE, ClassicGroup
from milepost.coordinator.classic.classic_member import ClassicMember
from milepost.coordinator.group.runtime import logger
from milepost.coordinator.interfaces import ConsumerGroupService
from milepost.coordinator.offsets.committed_offsets import Commit, OffsetStore, Transaction
from milepost.errors import InvalidRecord
from milepost.record.batches import AnyBatch
from milepost.record.control import ControlType, control_type
from milepost.record.internal_topics import consumer_offsets
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.internal_topics.unknown import Unknown
from milepost.record.records import Record

READ_AT_A_TIME = 1_000
DECODED_AT_A_TIME = 150
CLASSIC_TYPES = frozenset((b"\0\0", b"\0\1", b"\0\2"))
"""How their keys begin."""


class Last(NamedTuple):
    """The last record of a key."""

    position: int
    offset: int
    value: bytes


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
        self._last: dict[bytes, Last] = {}
        self._pending: dict[Transaction, dict[bytes, Last]] = {}
        self._pieces = self._work(batches)

    def step(self) -> bool:
        """Do a piece; whether that was the last."""
        return next(self._pieces, False) is False

    def _work(self, batches: Iterator[AnyBatch]) -> Iterator[bool]:
        count = 0
        for batch in batches:
            records = batch.records()
            for record in records:
                try:
                    self._read(batch, record)
                except InvalidRecord as error:
                    self._skip(record.offset, error)
            count += len(records)
            if count >= READ_AT_A_TIME:
                yield True
                count = 0
        found: list[tuple[bytes, Last, Transaction | None]] = [(key, last, None) for key, last in self._last.items()]
        found += [(key, last, transaction) for transaction, keys in self._pending.items() for key, last in keys.items()]
        self._last, self._pending = {}, {}
        # In the order of the log: keys of type 0 and 1 may name the same offset.
        found.sort(key=lambda entry: entry[1].position)
        for count, (key, last, transaction) in enumerate(found, 1):
            try:
                self._take(key, last, transaction)
            except InvalidRecord as error:
                self._skip(last.offset, error)
            if count % DECODED_AT_A_TIME == 0:
                yield True

    def _read(self, batch: AnyBatch, record: Record) -> None:
        if batch.is_control:
            self._read_marker((self.partition, batch.producer_id), record)
        elif record.key is None:
            return
        elif record.key[:2] not in CLASSIC_TYPES:
            self._hand_on(record)
        elif record.value is None:
            for keys in (self._last, *self._pending.values()):
                keys.pop(record.key, None)
        else:
            pending = self._pending.setdefault((self.partition, batch.producer_id), {}) if batch.is_transactional else self._last
            pending[record.key] = Last(self.store.next_position(), record.offset, record.value)

    def _read_marker(self, transaction: Transaction, record: Record) -> None:
        """As `OffsetStore.complete`, on what is not decoded yet."""
        kind = control_type(record.key)
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return
        for key, last in self._pending.pop(transaction, {}).items():
            if kind == ControlType.COMMIT and (key not in self._last or self._last[key].position < last.position):
                self._last[key] = last

    def _hand_on(self, record: Record) -> None:
        if self.consumer_groups is None or record.key is None:
            return
        key = consumer_offsets.decode_key(record.key)
        value = consumer_offsets.decode_value(key, record.value)
        if not isinstance(key, Unknown) and not isinstance(value, Unknown):
            self.consumer_groups.replay(self.partition, key, value)

    def _take(self, raw_key: bytes, last: Last, transaction: Transaction | None) -> None:
        key = consumer_offsets.decode_key(raw_key)
        value = consumer_offsets.decode_value(key, last.value)
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.with_offsets.add(key.group)
            where, commit = (key.topic, key.partition), Commit(last.position, value)
            if transaction is None:
                self.store.commit(key.group, where, commit)
            else:
                self.store.add_pending(transaction, key.group, where, commit)
        elif isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
            self.found[key.group] = value

    def _skip(self, offset: int, error: InvalidRecord) -> None:
        logger.error("__consumer_offsets-%d, offset %d is skipped: %s", self.partition, offset, error)


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
