"""Which records of a batch survive a cleaning, and the batch that is left of it.

Asked in this order:

    1  a batch of an aborted transaction                   nothing survives
    2  a marker without data (see cleaned_transactions)    nothing survives once its delete horizon has passed
    3  any other control batch                             survives
    4  a record behind the end of the offset map           survives: this pass knows nothing about its key
    5  a record without a key                              goes, and is counted: compaction needs keys
    6  a record that is not the newest of its key          goes
    7  a tombstone (no value) whose time is up             goes
    8  whatever is left                                    survives

The time of a tombstone, and of a marker without data, starts when a cleaning first meets it: the batch is rewritten with a *delete
horizon*, now + `delete.retention.ms`, and a later cleaning removes what has passed it. So every reader has that long to see
the deletion, however old the record is. Formats before magic 2 have no place for a horizon; there the age of the file decides.

What is written:

    nothing changed                       the bytes as they are
    some records went, or a new horizon   the batch rewritten, with its offsets, sequences and codec (`builder.rewrite_batch`)
    nothing survived                      nothing; or the 61 bytes of an empty batch if it is the last of its producer, whose
                                          sequence must stay known, or the last of the whole pass, so that the log does not seem
                                          to end before its next segment starts

The CRC of a batch is checked before anything is decided: a rewrite would give damaged bytes a valid one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from milepost.codec.compression import compress, decompress
from milepost.log.cleaning.cleaned_transactions import CleanedTransactions
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.record.batch import (
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    RecordBatch,
)
from milepost.record.batches import batch_at, parse_start
from milepost.record.builder import KNOWN_FLAGS, empty_batch, pack_batch, rewrite_batch, rewrite_legacy
from milepost.record.kernel import Columns, decode_records, encode_records
from milepost.segment.append_unit import AppendUnit

if TYPE_CHECKING:
    from milepost.codec.buffer import Buffer
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch
    from milepost.record.legacy import LegacyBatch
    from milepost.record.records import Record

LONG_MAX = 2**63 - 1


class LastRecord(NamedTuple):
    """Where a producer stands: the last offset of its newest data batch, None when only a marker of this epoch is known."""

    last_data_offset: int | None
    epoch: int


class CleanedBatch(NamedTuple):
    """What is left of a batch, and what the indexes need to know of it."""

    data: ReadableBuffer
    unit: AppendUnit


@dataclass(slots=True)
class FilterStats:
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    batches_kept_empty: int = 0


@dataclass(slots=True)
class BatchFilter:
    offset_map: OffsetMap
    transactions: CleanedTransactions
    producers: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    upper_bound: int
    exact_offsets: bool = False  # the index profile of Kafka 2.4.1 wants the last record's offset, not the batch's last
    stats: FilterStats = field(default_factory=FilterStats)

    def clean_piece(self, data: bytes, keep_legacy_tombstones: bool, where: str = "") -> tuple[int, list[CleanedBatch]]:
        """What is left of the whole batches in a piece of a file, and where they ended."""
        survivors: list[CleanedBatch] = []
        view, at = memoryview(data), 0
        while True:
            at, plain, records, keyless = self.offset_map.keep_batches(data, at, self.upper_bound, self.now_ms)
            self.stats.records_read += records
            self.stats.records_without_key += keyless
            for position, size, last_offset, max_timestamp, count in plain:
                self.stats.records_kept += count
                unit = AppendUnit(last_offset, size, max_timestamp, last_offset)
                survivors.append(CleanedBatch(view[position : position + size], unit))
            batch = whole_batch(data, at, where)
            if batch is None:
                return at, survivors
            survivor = self.clean(batch, keep_legacy_tombstones, where)
            if survivor is not None:
                survivors.append(survivor)
            at += batch.size

    def clean(self, batch: AnyBatch, keep_legacy_tombstones: bool, where: str = "") -> CleanedBatch | None:
        """The batch as it goes into the cleaned segment; None when it does not."""
        batch.ensure_valid(where)
        if isinstance(batch, RecordBatch):
            return self._clean_batch(batch)
        return self._clean_legacy(batch, keep_legacy_tombstones)

    def _clean_batch(self, batch: RecordBatch) -> CleanedBatch | None:
        may_go = self.transactions.is_discardable(batch)
        horizon = batch.delete_horizon_ms
        self.stats.records_read += batch.record_count
        if batch.is_control:
            is_over = horizon is not None and horizon <= self.now_ms
            if may_go and (is_over or not batch.record_count):
                return self._emptied(batch)
            self.stats.records_kept += batch.record_count
            if may_go and horizon is None:
                return _cleaned(rewrite_batch(batch, batch.records(), delete_horizon_ms=self._new_horizon()), batch)
            return _cleaned(batch.view(), batch)
        if may_go or not batch.record_count:
            return self._emptied(batch)
        return self._clean_data(batch, horizon)

    def _clean_data(self, batch: RecordBatch, horizon: int | None) -> CleanedBatch | None:
        data, start, end = section_of(batch)
        columns = decode_records(data, start, end, batch.record_count, batch.base_offset, batch.base_timestamp)
        keep_tombstones = horizon is None or self.now_ms < horizon
        kept, keyless, tombstones = self.offset_map.keep_records(columns, data, keep_tombstones)
        self.stats.records_kept += kept
        self.stats.records_without_key += keyless
        if not kept:
            return self._emptied(batch)
        if tombstones and horizon is None:
            return self._rewritten(batch, columns, data, self._new_horizon())
        if kept < batch.record_count:
            return self._rewritten(batch, columns, data, horizon)
        return _cleaned(batch.view(), batch)

    def _rewritten(self, batch: RecordBatch, columns: Columns, data: Buffer, horizon: int | None) -> CleanedBatch:
        """`builder.rewrite_batch` without making a Record of anything."""
        if batch.attributes & LOG_APPEND_TIME_FLAG:
            max_timestamp = batch.max_timestamp
            columns.timestamps = array("q", (max_timestamp,)) * len(columns)
        else:
            max_timestamp = max(NO_TIMESTAMP, max(columns.timestamps))
        base_timestamp = columns.timestamps[0] if horizon is None else horizon
        section = encode_records(columns, data, data, data, batch.base_offset, base_timestamp)
        packed = pack_batch(
            base_offset=batch.base_offset,
            partition_leader_epoch=batch.partition_leader_epoch,
            attributes=batch.attributes & KNOWN_FLAGS | (0 if horizon is None else DELETE_HORIZON_FLAG),
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            record_count=len(columns),
            payload=compress(batch.codec, section),
        )
        largest_offset = columns.offsets[-1] if self.exact_offsets else batch.last_offset
        return CleanedBatch(packed, AppendUnit(largest_offset, len(packed), max_timestamp, batch.last_offset))

    def _emptied(self, batch: RecordBatch) -> CleanedBatch | None:
        if not self._is_last_of_producer(batch) and batch.next_offset != self.upper_bound:
            return None
        self.stats.batches_kept_empty += 1
        return _cleaned(empty_batch(batch), batch)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self.producers.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_data_offset is None:
            # Only its epoch is known, from a marker; the marker carries it to whoever replays the log.
            return batch.is_control and batch.producer_epoch == last.epoch
        return batch.last_offset == last.last_data_offset

    def _new_horizon(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, LONG_MAX)

    def _clean_legacy(self, batch: LegacyBatch, keep_tombstones: bool) -> CleanedBatch | None:
        records = batch.records()
        kept = [record for record in records if self._survives(record, keep_tombstones)]
        self.stats.records_read += len(records)
        self.stats.records_kept += len(kept)
        if not kept:
            return None
        if len(kept) == len(records) and not batch.holds_older_messages():
            return _cleaned(batch.view(), batch)
        data = rewrite_legacy(batch, kept)
        is_create_time = not batch.attributes & LOG_APPEND_TIME_FLAG
        newest = max(record.timestamp for record in kept) if is_create_time else batch.max_timestamp
        return CleanedBatch(data, AppendUnit(kept[-1].offset, len(data), newest, kept[-1].offset))

    def _survives(self, record: Record, keep_tombstones: bool) -> bool:
        if record.offset > self.offset_map.latest_offset:
            return True
        if record.key is None:
            self.stats.records_without_key += 1
            return False
        return record.offset >= self.offset_map.get(record.key) and (record.value is not None or keep_tombstones)


def whole_batch(data: bytes, at: int, where: str = "") -> AnyBatch | None:
    """The batch at a place in a piece of a file; None when the piece ends before the batch does."""
    if len(data) - at < HEADER_SIZE_UP_TO_MAGIC or at + parse_start(data, at, where=where)[0] > len(data):
        return None
    return batch_at(data, at, where=where)


def section_of(batch: RecordBatch) -> tuple[Buffer, int, int]:
    """The records section of a batch, decompressed: a buffer, and where in it the records start and end."""
    if batch.is_compressed:
        data = decompress(batch.codec, batch.payload())
        return data, 0, len(data)
    return batch.buffer, batch.position + HEADER_SIZE, batch.position + batch.size


def _cleaned(data: ReadableBuffer, batch: AnyBatch) -> CleanedBatch:
    return CleanedBatch(data, AppendUnit(batch.last_offset, len(data), batch.max_timestamp, batch.last_offset))
