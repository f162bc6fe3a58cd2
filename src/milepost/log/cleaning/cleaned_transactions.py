"""What one pass of the cleaner learns about transactions as it walks the log: whose data may go, which markers still mean something.

    batch                              may go (the filter decides when)
    data of an aborted transaction     at once, whatever its keys
    COMMIT marker                      when no data of its transaction was seen in this pass
    ABORT marker                       the same; while data was seen, its entry goes into the new segment's transaction index
    control batch without a record     yes: an earlier cleaning emptied it
    any other control batch, all else  no

A pass never goes beyond the last stable offset, so every transaction it meets has been decided, perhaps by a marker
behind the end of the pass. Which ones were aborted is known beforehand, from the transaction indexes of the log.
Those that ended before the pass begins are not for it: it would never see their markers, and take later data of the
same producers for theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.record.control import ControlType, control_type
from milepost.segment.txn_index import AbortedTransaction, TxnIndex

if TYPE_CHECKING:
    from milepost.record.batches import AnyBatch


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction], first_offset: int = 0):
        """`first_offset`: where the pass begins."""
        expected = [transaction for transaction in aborted if transaction.last_offset >= first_offset]
        self.index: TxnIndex | None = None  # of the segment being written; none while the offset map is built
        self._expected = sorted(expected, key=lambda transaction: -transaction.first_offset)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()

    def is_discardable(self, batch: AnyBatch) -> bool:
        """Take note of the next batch; whether it may go."""
        if batch.is_control:
            self._begin_up_to(batch.last_offset)
            return self._is_marker_discardable(batch)
        if batch.is_transactional:
            self._begin_up_to(batch.last_offset)
            return self._is_aborted(batch)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._expected and self._expected[-1].first_offset <= offset:
            transaction = self._expected.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)

    def _is_aborted(self, batch: AnyBatch) -> bool:
        is_aborted = batch.producer_id in self._aborted
        (self._seen_aborted if is_aborted else self._seen_committed).add(batch.producer_id)
        return is_aborted

    def _is_marker_discardable(self, batch: AnyBatch) -> bool:
        if not batch.record_count:
            return True
        kind = control_type(next(iter(batch.records())).key)
        producer_id = batch.producer_id
        if kind is ControlType.COMMIT:
            was_seen = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return not was_seen
        if kind is not ControlType.ABORT:
            return False
        transaction = self._aborted.pop(producer_id, None)
        was_seen = producer_id in self._seen_aborted
        self._seen_aborted.discard(producer_id)
        if transaction is None or not was_seen:
            return True
        if self.index is not None:
            self.index.append(transaction)
        return False
