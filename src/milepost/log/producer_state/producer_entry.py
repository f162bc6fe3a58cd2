"""What a log remembers about one producer, and the checks its next batch must pass.

A producer numbers the records it sends to a partition. The log keeps the last five batches of each producer, so that
a batch sent again after a lost answer is recognised and gets its first answer again, and so that a missing batch is
noticed.

    batch arrives                                 client                  coordinator, raft leader   replication
    same epoch and sequences as one of the five   duplicate               -                          -
    epoch below the known one                     InvalidProducerEpoch    InvalidProducerEpoch       warning
    another epoch, first sequence not 0           OutOfOrderSequence (1)  -                          -
    same epoch, first sequence not last + 1       OutOfOrderSequence (2)  -                          -
    plain batch inside an open transaction        InvalidTxnState         InvalidTxnState            warning
    marker with a lower coordinator epoch         TransactionCoordinatorFenced, twice                log line

    (1) unless nothing is known about the producer   (2) 0 follows 2^31-1; when only a marker is known, 0 must come first

Replication is lenient because the leader has decided already: a follower, or a log that reads itself back, can only
follow. (Kafka raises InvalidTxnState there too, and can then no longer load the log.)

A `ProducerAppend` collects the batches of one append on the side; the log applies it once their bytes are written.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from milepost.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from milepost.record.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from milepost.record.control import ControlType, control_type, parse_end_transaction
from milepost.record.sequence import MAX_SEQUENCE, decrement_sequence

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationEntry
    from milepost.record.batch import RecordBatch

logger = logging.getLogger("milepost.log")

BATCHES_KEPT = 5
NO_COORDINATOR_EPOCH = -1


class AppendOrigin(enum.Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer. A tuple and not a dataclass: one is made for every batch appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta) if self.last_sequence >= 0 else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "last_timestamp", "producer_id")

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: Iterable[BatchMetadata] = (),
    ):
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[BatchMetadata] = deque(batches, BATCHES_KEPT)

    @property
    def first_sequence(self) -> int:
        """Of the oldest batch kept."""
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The batch kept that has the epoch, the first and the last sequence of this one."""
        if batch.producer_epoch != self.epoch:
            return None
        last_sequence = batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def expects(self, epoch: int, sequence: int, is_transactional: bool) -> bool:
        """Whether a batch simply goes on behind the last one, in the open transaction or with none open. False decides nothing."""
        return (
            epoch == self.epoch
            and (self.current_txn_first_offset is not None) == is_transactional
            and bool(self.batches)
            and self.batches[-1].last_sequence + 1 == sequence
        )

    def set_epoch(self, epoch: int) -> None:
        """Sequences start again with an epoch, so the batches of another one say nothing about the next."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def merge(self, newer: ProducerEntry) -> None:
        """Take over what an append collected: its batches join the window, everything else replaces ours."""
        self.set_epoch(newer.epoch)
        self.batches.extend(newer.batches)
        self.coordinator_epoch = newer.coordinator_epoch
        self.last_timestamp = newer.last_timestamp
        self.current_txn_first_offset = newer.current_txn_first_offset

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.current_txn_first_offset is None and now_ms - self.last_timestamp >= expiration_ms

    def __repr__(self) -> str:
        return (
            f"ProducerEntry(producer_id={self.producer_id}, epoch={self.epoch}, "
            f"coordinator_epoch={self.coordinator_epoch}, last_timestamp={self.last_timestamp}, "
            f"current_txn_first_offset={self.current_txn_first_offset}, batches={list(self.batches)})"
        )


class ProducerAppend:
    """The batches of one producer in one append: checked against what is known, recorded aside, applied by `update`."""

    __slots__ = (
        "_known_epoch",
        "_known_last_sequence",
        "_verification",
        "entry",
        "is_changed",
        "is_transactional",
        "origin",
        "producer_id",
        "started",
    )

    def __init__(
        self, producer_id: int, current: ProducerEntry | None, origin: AppendOrigin, verification: VerificationEntry | None = None
    ):
        self.producer_id = producer_id
        self.origin = origin
        self.started: list[int] = []
        self.is_changed = False
        self.is_transactional = False
        self._verification = verification
        if current is None:
            self.entry = ProducerEntry(producer_id)
        else:
            self.entry = ProducerEntry(
                producer_id, current.epoch, current.coordinator_epoch, current.last_timestamp, current.current_txn_first_offset
            )
        self._known_epoch = self.entry.epoch
        self._known_last_sequence = NO_SEQUENCE if current is None else current.last_sequence

    def append(self, batch: RecordBatch, first_offset: int | None = None) -> CompletedTransaction | None:
        """Check and record one batch; `first_offset` is given while the batch still carries its client's offsets."""
        if first_offset is None:
            first_offset = batch.base_offset
        if batch.is_control:
            return self._append_control(batch, first_offset)
        self._append_data(batch, first_offset)
        return None

    def _append_data(self, batch: RecordBatch, first_offset: int) -> None:
        entry = self.entry
        is_transactional = batch.is_transactional
        self._check_epoch(batch.producer_epoch, first_offset)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(batch, first_offset)
        if entry.current_txn_first_offset is not None and not is_transactional:
            self._refuse(
                InvalidTxnState,
                f"producer {self.producer_id}: the batch at offset {first_offset} is not transactional, "
                f"but the producer's transaction from offset {entry.current_txn_first_offset} is still open",
            )
        entry.set_epoch(batch.producer_epoch)
        delta = batch.last_offset_delta
        entry.batches.append(BatchMetadata(batch.last_sequence, first_offset + delta, delta, batch.max_timestamp))
        entry.last_timestamp = batch.max_timestamp
        if is_transactional:
            self.is_transactional = True
            if entry.current_txn_first_offset is None:
                entry.current_txn_first_offset = first_offset
                self.started.append(first_offset)
        self.is_changed = True

    def _append_control(self, batch: RecordBatch, offset: int) -> CompletedTransaction | None:
        if not batch.record_count:
            return None  # the cleaner removed the marker and its whole transaction
        record = next(iter(batch.records()))
        if control_type(record.key) not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        marker = parse_end_transaction(record)
        entry = self.entry
        self._check_epoch(batch.producer_epoch, offset)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            self._refuse(
                TransactionCoordinatorFenced,
                f"producer {self.producer_id}: the transaction marker at offset {offset} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, but epoch {entry.coordinator_epoch} has written already",
            )
        # A transaction without data moves no stable offset and gets no index entry: nothing is reported.
        completed = None
        if entry.current_txn_first_offset is not None:
            is_aborted = marker.control_type == ControlType.ABORT
            completed = CompletedTransaction(self.producer_id, entry.current_txn_first_offset, offset, is_aborted)
        entry.set_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = record.timestamp
        entry.current_txn_first_offset = None
        self.is_changed = self.is_transactional = True
        return completed

    def _check_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.entry.epoch:
            self._refuse(
                InvalidProducerEpoch,
                f"producer {self.producer_id}: the batch at offset {offset} has epoch {epoch}, "
                f"but epoch {self.entry.epoch} has written already; a newer instance took over",
            )

    def _check_sequence(self, batch: RecordBatch, offset: int) -> None:
        first = batch.base_sequence
        entry = self.entry
        if self._verification is not None and first > self._verification.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {self.producer_id}: the batch at offset {offset} starts at sequence {first}, "
                f"but the batch with sequence {self._verification.lowest_sequence} is still being verified and must come first"
            )
        if batch.producer_epoch != entry.epoch:
            if first != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequence(
                    f"producer {self.producer_id}: the first batch of epoch {batch.producer_epoch} (offset {offset}) "
                    f"starts at sequence {first}, expected 0; the epoch so far was {entry.epoch}"
                )
            return
        if self._known_epoch == NO_PRODUCER_EPOCH:
            # Its earlier batches may be gone by retention: whatever comes first is right.
            return
        if entry.batches:
            last = entry.batches[-1].last_sequence
        else:
            last = self._known_last_sequence if entry.epoch == self._known_epoch else NO_SEQUENCE
        if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
            raise OutOfOrderSequence(
                f"producer {self.producer_id}: the batch at offset {offset} starts at sequence {first}, "
                f"expected {0 if last == MAX_SEQUENCE else last + 1}; a batch in between is missing or was sent twice"
            )

    def _refuse(self, error: type[Exception], sentence: str) -> None:
        if self.origin is not AppendOrigin.REPLICATION:
            raise error(sentence)
        logger.warning("%s; kept as it was replicated", sentence)
