"""The state of all producers of one log: who wrote what last, which transactions are open, what is being verified.

`map_end_offset` is the offset the state is complete up to (exclusive). A snapshot at that offset lets the next start read
the log from there instead of from its beginning; `last_snapshot_offset` is where the newest one was taken or loaded.

An append goes through three steps: `prepare_update` gives a `ProducerAppend` that checks batches and collects them on the
side; the log writes their bytes; `update` makes them known, and `complete_transaction` ends each transaction that a
marker closed. Loading has no one to refuse: `truncate_and_reload` goes back to the newest snapshot inside the log, and
`replay` takes in every later batch, leniently, since it is in the log already.

Not promised: that deleting segments forgets their producers. Only time and truncation do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.errors import CorruptSnapshot, InvalidTxnState
from milepost.files import Disk
from milepost.log.producer_state.open_transactions import Transactions
from milepost.log.producer_state.producer_entry import (
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppend,
    ProducerEntry,
)
from milepost.log.producer_state.snapshot import SnapshotEntry, encode_snapshot
from milepost.log.producer_state.snapshot_files import SnapshotFiles
from milepost.log.producer_state.verification import VerificationEntry, VerificationGuard

if TYPE_CHECKING:
    from milepost.record.batch import RecordBatch

logger = logging.getLogger("milepost.log")

LATE_TRANSACTION_BUFFER_MS = 300_000


class ProducerStateManager:
    def __init__(self, directory: str, disk: Disk, clock: Clock, *, expiration_ms: int = 86_400_000):
        self.clock = clock
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self.last_snapshot_offset = 0
        self._transactions = Transactions()
        # Called for every batch.
        self.on_high_watermark_updated = self._transactions.drop_completed_below
        self._verifications: dict[int, VerificationEntry] = {}
        self._files = SnapshotFiles(directory, disk)

    @property
    def is_empty(self) -> bool:
        return not self.producers

    def last_entry(self, producer_id: int) -> ProducerEntry | None:
        return self.producers.get(producer_id)

    # Appending.

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppend:
        return ProducerAppend(producer_id, self.producers.get(producer_id), origin, self._verifications.get(producer_id))

    def update(self, append: ProducerAppend) -> None:
        """Make a prepared append known: the bytes of its batches are in the log."""
        if not append.is_changed:
            return
        known = self.producers.get(append.producer_id)
        if known is None:
            self.producers[append.producer_id] = append.entry
        else:
            known.merge(append.entry)
        for first_offset in append.started:
            self._transactions.open(first_offset, append.producer_id)
        if append.is_transactional and self._verifications:
            # The transaction is now known here, or over: whoever still waits for an answer must ask again.
            self.clear_verification(append.producer_id)

    def replay(self, batch: RecordBatch, origin: AppendOrigin = AppendOrigin.REPLICATION) -> CompletedTransaction | None:
        """Take in a batch that is in the log already; a completed transaction is the caller's to complete."""
        append = self.prepare_update(batch.producer_id, origin)
        completed = append.append(batch)
        self.update(append)
        return completed

    def update_map_end_offset(self, offset: int) -> None:
        self.map_end_offset = offset

    def restore_batches(self, producer_id: int, older: Sequence[BatchMetadata]) -> None:
        """Put batches of the producer's epoch, ascending, in front of those known: a snapshot holds only the newest."""
        entry = self.producers.get(producer_id)
        if entry is not None:
            known = list(entry.batches)
            entry.batches.clear()
            entry.batches.extend(batch for batch in older if not known or batch.last_offset < known[0].last_offset)
            entry.batches.extend(known)

    # Transactions.

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """The last stable offset that belongs into the transaction index; asked before `complete_transaction`."""
        return self._transactions.last_stable_offset(completed)

    def complete_transaction(self, completed: CompletedTransaction) -> None:
        self._transactions.complete(completed)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction starts that is open, or whose marker the high watermark has not passed."""
        return self._transactions.first_unstable_offset

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.current_txn_first_offset is not None and entry.epoch == epoch

    def is_transaction_late(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Whether the oldest open transaction has been silent for longer than any transaction may last."""
        producer_id = self._transactions.oldest_producer_id
        entry = None if producer_id is None else self.producers.get(producer_id)
        if entry is None or entry.last_timestamp <= 0:
            return False
        return now_ms - entry.last_timestamp > max_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    # Verification of a transaction's first batch (KIP-890).

    def maybe_create_verification(self, producer_id: int, sequence: int, epoch: int) -> VerificationGuard:
        """The guard to hold while the coordinator is asked; every batch that waits lowers the sequence to wait for."""
        entry = self._verifications.get(producer_id)
        if entry is None:
            entry = self._verifications[producer_id] = VerificationEntry(self.clock.now_ms(), sequence, epoch)
        else:
            entry.lower_to(sequence, epoch)
        return entry.guard

    @property
    def is_verifying(self) -> bool:
        return bool(self._verifications)

    def verification_guard(self, producer_id: int) -> VerificationGuard | None:
        entry = self._verifications.get(producer_id)
        return None if entry is None else entry.guard

    def clear_verification(self, producer_id: int) -> None:
        self._verifications.pop(producer_id, None)

    def end_verification(self, producer_id: int, guard: VerificationGuard) -> None:
        """The coordinator said no. Kafka keeps the guard until it expires; kept, producers that nobody knows would fill memory."""
        if self.verification_guard(producer_id) is guard:
            self.clear_verification(producer_id)

    def check_verification(self, batch: RecordBatch, origin: AppendOrigin, guard: VerificationGuard | None) -> None:
        """Refuse the first batch of a transaction whose guard is not the registered one."""
        if origin not in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR) or not batch.is_transactional or batch.is_control:
            return
        if self.has_open_transaction(batch.producer_id, batch.producer_epoch):
            return
        known = self.last_entry(batch.producer_id)
        if guard is None and known is not None and batch.producer_epoch < known.epoch:
            return  # nobody was asked: it is refused for its epoch
        if guard is None or self.verification_guard(batch.producer_id) is not guard:
            raise InvalidTxnState(
                f"producer {batch.producer_id}: the batch with sequence {batch.base_sequence} starts a transaction here that "
                "the transaction coordinator did not confirm, or that ended meanwhile"
            )

    # Time.

    def remove_expired(self, now_ms: int, producer_ids: Iterable[int] | None = None) -> None:
        """Forget producers, of these or all, without an open transaction that were silent for `expiration_ms`; verifications as old too."""
        for producer_id in list(self.producers) if producer_ids is None else producer_ids:
            entry = self.producers.get(producer_id)
            if entry is not None and entry.is_expired(now_ms, self.expiration_ms):
                del self.producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.timestamp >= self.expiration_ms:
                del self._verifications[producer_id]

    # Snapshots.

    def snapshots(self) -> list[int]:
        """The offsets of the snapshots on disk, ascending."""
        return self._files.offsets

    def take_snapshot(self) -> str | None:
        """Write the state as it stands, named by `map_end_offset`; nothing when the last snapshot is as new."""
        snapshot = self.encoded_snapshot()
        if snapshot is None:
            return None
        path = self.write_snapshot(snapshot)
        self.note_snapshot(snapshot)
        return path

    def encoded_snapshot(self) -> tuple[int, bytes] | None:
        """Offset and content of the snapshot that is due; None when the last one is as new."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return None
        return self.map_end_offset, encode_snapshot(self.producers.values())

    def write_snapshot(self, snapshot: tuple[int, bytes]) -> str:
        """The file only, so that another thread may do it; its path."""
        return self._files.write(*snapshot)

    def note_snapshot(self, snapshot: tuple[int, bytes]) -> None:
        """The file is there."""
        offset, _ = snapshot
        self._files.add(offset)
        self.last_snapshot_offset = max(self.last_snapshot_offset, offset)

    def move_to(self, directory: str) -> None:
        """The directory of the snapshots has another name now."""
        self._files.move_to(directory)

    def remove_snapshot(self, offset: int) -> None:
        self._files.remove(offset)

    def rename_snapshot_for_delete(self, offset: int) -> str | None:
        return self._files.rename_for_delete(offset)

    def delete_snapshots_before(self, offset: int) -> None:
        self._files.remove_below(offset)

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        self._files.remove_strays(segment_base_offsets)

    # Loading and truncating.

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Go back to the newest snapshot inside the log, unless the state ends where the log ends."""
        self._files.remove_below(log_start_offset + 1)
        self._files.remove_above(log_end_offset)
        if self.map_end_offset == log_end_offset:
            self.on_log_start_incremented(log_start_offset)
        else:
            self._clear()
            self._load_newest(log_start_offset)

    def _load_newest(self, log_start_offset: int) -> None:
        now_ms = self.clock.now_ms()
        while (offset := self._files.newest) is not None:
            try:
                entries = self._files.read(offset)
            except CorruptSnapshot as damage:
                logger.warning("%s; it is deleted and an older one used", damage)
                self._files.remove(offset)
                continue
            for stored in entries:
                entry = producer_entry(stored)
                if not entry.is_expired(now_ms, self.expiration_ms):
                    self.producers[entry.producer_id] = entry
                    if entry.current_txn_first_offset is not None:
                        self._transactions.open(entry.current_txn_first_offset, entry.producer_id)
            self.last_snapshot_offset = self.map_end_offset = offset
            return
        self.last_snapshot_offset = self.map_end_offset = log_start_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._clear()
        self._files.remove_above(-1)
        self.last_snapshot_offset = 0
        self.map_end_offset = offset

    def on_log_start_incremented(self, log_start_offset: int) -> None:
        """Forget completed transactions below the new start. Producers stay: their next batch is checked as before."""
        self._transactions.drop_completed_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        newest = self._files.newest
        self.last_snapshot_offset = log_start_offset if newest is None else newest

    def _clear(self) -> None:
        self.producers.clear()
        self._transactions.clear()


def producer_entry(stored: SnapshotEntry) -> ProducerEntry:
    """A producer as a snapshot knows it: with at most one batch."""
    timestamp = stored.last_timestamp
    newest = BatchMetadata(stored.last_sequence, stored.last_data_offset, stored.last_offset_delta, timestamp)
    return ProducerEntry(
        stored.producer_id,
        stored.epoch,
        stored.coordinator_epoch,
        timestamp,
        stored.current_txn_first_offset,
        [newest] if stored.last_data_offset >= 0 else [],
    )
