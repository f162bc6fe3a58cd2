"""The append path: what a leader is given by clients, and what a follower is given by its leader.

    1  check      each batch from outside: size, CRC, order of offsets
    2  validate   leader only: every record; offsets, epoch and timestamps assigned
    3  epochs     a new leader epoch is noted
    4  roll       if the batch belongs into a new segment
    5  producer   sequences, epochs and transactions, checked aside; a duplicate ends the append here
    6  write      bytes, then index entries; a failure leaves the log as it was
    7  apply      log end, producer state, transaction index; flush if `flush.messages` says so

Steps 3 and 4 have happened even when step 5 refuses the batch; that is Kafka's order, and harmless.

Most batches of clients need none of the exceptions in these steps: `append_fast` does all seven in one go, or nothing at all.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.config.topic import LogConfig
from milepost.errors import (
    InvalidArgument,
    KafkaStorage,
    OffsetsOutOfOrder,
    RecordBatchTooLarge,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from milepost.files import HandlePool
from milepost.log.append_info import CLIENT, RAFT_LEADER, AppendInfo, checked_batches
from milepost.log.examination import Examined
from milepost.log.owner import Owner
from milepost.log.producer_state.producer_entry import AppendOrigin, BatchMetadata, CompletedTransaction, ProducerAppend
from milepost.log.producer_state.verification import VerificationGuard
from milepost.log.quick_append import IS_COMPILED, append_fast
from milepost.log.reading import ReadableLog
from milepost.log.validation import Validator
from milepost.record.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, RecordBatch
from milepost.record.builder import build_batch
from milepost.record.kernel import scan_records
from milepost.record.records import Record
from milepost.segment.append_unit import AppendUnit, IndexedUnit
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.segment import Segment
from milepost.segment.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class AppendableLog(ReadableLog):
    """A log that can grow. How it rolls, flushes and fails is its other half's business."""

    config: LogConfig
    pool: HandlePool
    clock: Clock
    recovery_point: int
    validator: Validator
    owner: Owner
    # Set by `close` and by `taken_away`: nothing changes the files any more.
    is_closed: bool
    is_read_only: bool

    def roll(self, requested_offset: int = 0) -> Segment:
        raise NotImplementedError

    def flush_before_answer(self) -> None:
        raise NotImplementedError

    def update_high_watermark(self, offset: int) -> int:
        raise NotImplementedError

    @property
    def is_usable(self) -> bool:
        """Whether the log still has its files: not after an error of the disk, nor once it was closed or taken away."""
        return not (self.is_failed or self.is_closed)

    @property
    def why_unusable(self) -> KafkaStorage | None:
        if self.is_failed:
            return KafkaStorage(f"{self.directory}: the directory is offline after an error of the disk")
        return KafkaStorage(f"{self.directory}: the log is closed") if self.is_closed else None

    def ensure_writable(self) -> None:
        reason = self.why_unusable
        if reason is not None:
            raise reason
        if self.is_read_only:
            raise InvalidArgument(f"{self.directory}: the log was opened for reading; open it with mode='a' to append")

    def fail(self, error: OSError) -> KafkaStorage:
        raise NotImplementedError

    def refuse(self, error: OSError) -> KafkaStorage:
        """For an operation that has changed nothing yet: a full disk is waited out, any other error takes the log offline."""
        if self._is_waited_out(error):
            return KafkaStorage(f"{self.directory}: {error.strerror}; nothing was changed, make room and try again")
        return self.fail(error)

    def append(self, records: Iterable[Record] | ReadableBuffer) -> AppendInfo:
        """Append records (as one batch, in the topic's codec), or one batch as a producer encodes it, and make it readable.

        For a log that is embedded: there are no followers to wait for. Record offsets are assigned here; a timestamp
        of -1 becomes now.
        """
        if not isinstance(records, (bytes, bytearray, memoryview)):
            now = self.clock.now_ms()
            batch = [
                replace(record, offset=index, timestamp=now if record.timestamp == NO_TIMESTAMP else record.timestamp)
                for index, record in enumerate(records)
            ]
            records = build_batch(batch) if batch else b""
        info = self.append_as_leader(records)
        self.update_high_watermark(self.end_offset)
        return info

    def append_as_leader(
        self,
        data: ReadableBuffer,
        leader_epoch: int = 0,
        origin: AppendOrigin = CLIENT,
        verification_guard: VerificationGuard | None = None,
        examined: Examined | None = None,
    ) -> AppendInfo:
        """Validate one batch, give it the next offsets, and write it. A duplicate of a recent batch gets the offsets it got then.

        `examined`: what was found out about the batch already.
        """
        if IS_COMPILED and origin is CLIENT and verification_guard is None:
            info: AppendInfo | None = append_fast(self, data, leader_epoch, examined)
            if info is not None:
                return info
        if examined is not None and examined.validator is self.validator:
            if examined.error is not None:
                raise examined.error
            assert examined.found is not None, "it is sound, or there is an error"
            if self.is_failed or self.is_closed or self.is_read_only:
                self.ensure_writable()
            validated = self.validator.place(*examined.found, self.end_offset, leader_epoch, self.clock.now_ms())
        else:
            batches = checked_batches(data, origin, self.config.max_message_bytes, leader_epoch)
            if not batches:
                return self._nothing_appended()
            if self.is_failed or self.is_closed or self.is_read_only:
                self.ensure_writable()
            if origin is RAFT_LEADER:
                return self._append_given(batches)
            validated = self.validator.validate(batches, self.end_offset, leader_epoch, self.clock.now_ms(), origin)
        batch, size, last_offset = validated.batch, validated.size, validated.last_offset
        if size > self.config.max_message_bytes:
            raise RecordTooLarge(f"the batch has {size} bytes as stored; max.message.bytes is {self.config.max_message_bytes}")
        try:
            self.epochs.assign(leader_epoch, batch.base_offset)
            segment = self._segment_for(size, validated.max_timestamp, batch.base_offset, last_offset)
        except OSError as error:
            raise self.refuse(error) from error
        updates: list[ProducerAppend] = []
        completed: list[CompletedTransaction] = []
        if batch.producer_id >= 0:
            duplicate = self._check_producer(batch, origin, verification_guard, updates, completed)
            if duplicate is not None:
                return self._duplicate(batch, duplicate)
        self._write(segment, validated.buffers, (validated,))
        self._appended(last_offset, segment, updates, completed)
        return AppendInfo(
            batch.base_offset,
            last_offset,
            validated.max_timestamp,
            validated.offset_of_max_timestamp,
            validated.log_append_time,
            self.start_offset,
            leader_epoch,
            size,
        )

    def start_verification(self, producer_id: int, producer_epoch: int, sequence: int) -> VerificationGuard | None:
        """The guard under which the first batch of a transaction is appended once its coordinator was asked.

        None when there is nothing to ask: the transaction is open here, or the epoch is an older one, which the append refuses.
        """
        known = self.producers.last_entry(producer_id)
        is_stale = known is not None and producer_epoch < known.epoch
        if is_stale or self.producers.has_open_transaction(producer_id, producer_epoch):
            return None
        return self.producers.maybe_create_verification(producer_id, sequence, producer_epoch)

    def append_as_follower(self, data: ReadableBuffer) -> AppendInfo:
        """Write batches as another replica wrote them: their offsets, epochs and bytes are kept."""
        batches = checked_batches(data, AppendOrigin.REPLICATION, None)
        if not batches:
            return self._nothing_appended()
        self.ensure_writable()
        return self._append_given(batches)

    def _append_given(self, batches: Sequence[AnyBatch]) -> AppendInfo:
        first, last = batches[0], batches[-1]
        valid_bytes = sum(batch.size for batch in batches)
        # The true first offset of a compressed legacy set is inside it; its last one is known without looking.
        first_offset = first.base_offset if first.magic >= MAGIC else first.last_offset
        if any(batch.last_offset >= following.last_offset for batch, following in pairwise(batches)):
            raise OffsetsOutOfOrder(f"{self.directory}: the offsets of the {len(batches)} batches do not rise")
        if first_offset < self.end_offset:
            raise UnexpectedAppendOffset(
                f"{self.directory}: the append starts at offset {first.base_offset}, below the log end {self.end_offset}",
                first.base_offset,
                last.last_offset,
            )
        units = [self._unit(batch) for batch in batches]
        newest = max(units, key=lambda unit: unit.max_timestamp)
        requested = first_offset if first.magic >= MAGIC else last.last_offset - MAX_RELATIVE_OFFSET
        try:
            self._assign_epochs(batches)
            segment = self._segment_for(valid_bytes, newest.max_timestamp, requested, last.last_offset)
        except OSError as error:
            raise self.refuse(error) from error
        updates: list[ProducerAppend] = []
        completed: list[CompletedTransaction] = []
        for batch in batches:
            if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
                self._check_producer(batch, AppendOrigin.REPLICATION, None, updates, completed)
        self._write(segment, [memoryview(first.buffer)[:valid_bytes]], units)
        self._appended(last.last_offset, segment, updates, completed)
        return AppendInfo(
            first_offset,
            last.last_offset,
            newest.max_timestamp,
            newest.offset_of_max_timestamp,
            log_start_offset=self.start_offset,
            leader_epoch=last.partition_leader_epoch,
            valid_bytes=valid_bytes,
        )

    def _assign_epochs(self, batches: Sequence[AnyBatch]) -> None:
        for batch in batches:
            if batch.magic >= MAGIC:
                if batch.partition_leader_epoch >= 0:
                    self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            elif not self.epochs.is_empty:
                self.epochs.clear()

    def _unit(self, batch: AnyBatch) -> AppendUnit:
        brought_by = batch.last_offset
        if (
            self.validator.exact_time_offset
            and isinstance(batch, RecordBatch)
            and not batch.is_compressed
            and batch.record_count > 1
        ):
            start, end = batch.position + HEADER_SIZE, batch.position + batch.size
            largest, index, *_ = scan_records(batch.buffer, start, end, batch.record_count, batch.base_timestamp)
            if largest == batch.max_timestamp and index >= 0:
                brought_by = batch.base_offset + index
        return AppendUnit(batch.last_offset, batch.size, batch.max_timestamp, brought_by)

    def _check_producer(
        self,
        batch: RecordBatch,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        updates: list[ProducerAppend],
        completed: list[CompletedTransaction],
    ) -> BatchMetadata | None:
        """Check a batch against its producer's state, aside; the earlier batch if this one is a duplicate."""
        if origin is CLIENT:
            known = self.producers.last_entry(batch.producer_id)
            duplicate = known.find_duplicate(batch) if known else None
            if duplicate is not None:
                return duplicate
        if self.owner.verifies_transactions:
            self.producers.check_verification(batch, origin, guard)
        update = next((update for update in updates if update.producer_id == batch.producer_id), None)
        if update is None:
            update = self.producers.prepare_update(batch.producer_id, origin)
            updates.append(update)
        ended = update.append(batch)
        if ended is not None:
            completed.append(ended)
        return None

    def _segment_for(self, size: int, max_timestamp: int, first_offset: int, last_offset: int) -> Segment:
        if size > self.config.segment_bytes:
            raise RecordBatchTooLarge(
                f"{self.directory}: the append has {size} bytes; segment.bytes is {self.config.segment_bytes}"
            )
        active = self.segments.active
        if active.should_roll(size, max_timestamp, last_offset):
            return self.roll(first_offset)
        return active

    def _write(self, segment: Segment, buffers: Sequence[ReadableBuffer], units: Sequence[IndexedUnit]) -> None:
        try:
            segment.append(buffers, units)
        except OSError as error:
            if not self._is_waited_out(error) or self._file_size(segment) != segment.size:
                self.fail(error)
            raise KafkaStorage(
                f"{segment.log.path}: nothing was appended at offset {self.end_offset}: {error.strerror}"
            ) from error

    def _is_waited_out(self, error: OSError) -> bool:
        return error.errno in DISK_FULL and not self.owner.goes_offline_when_full

    def _file_size(self, segment: Segment) -> int:
        try:
            size = self.pool.disk.size(segment.log.handle.fd)
        except OSError:
            return -1
        return segment.size if self.config.preallocate and size > segment.size else size

    def _appended(
        self, last_offset: int, segment: Segment, updates: list[ProducerAppend], completed: list[CompletedTransaction]
    ) -> None:
        # The end moves first: whatever fails below, the bytes are in the log.
        self.end_offset = last_offset + 1
        for update in updates:
            self.producers.update(update)
        for transaction in completed:
            self.complete(transaction, segment)
        self.producers.map_end_offset = self.end_offset
        if self.end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush_before_answer()

    def complete(self, transaction: CompletedTransaction, segment: Segment) -> None:
        """A marker was appended: note the transaction in the segment's index if it was aborted."""
        if transaction.is_aborted:
            stable = self.producers.last_stable_offset(transaction)
            aborted = AbortedTransaction(transaction.producer_id, transaction.first_offset, transaction.last_offset, stable)
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                # The marker is in the log; without its entry readers of committed data would be given what was aborted.
                raise self.fail(error) from error
        self.producers.complete_transaction(transaction)

    def _nothing_appended(self) -> AppendInfo:
        return AppendInfo(-1, -1, log_start_offset=self.start_offset)

    def _duplicate(self, batch: RecordBatch, earlier: BatchMetadata) -> AppendInfo:
        return AppendInfo(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp,
            log_start_offset=self.start_offset,
            leader_epoch=batch.partition_leader_epoch,
            is_duplicate=True,
        )
