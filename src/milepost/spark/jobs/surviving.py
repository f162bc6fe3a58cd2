"""Which records of a stretch of log survive a compaction, known by their offsets.

The broker's cleaner keeps a map from keys to newest offsets in memory; here Spark has found the newest offset of every key, and what a
task gets is the sorted list of those that lie in its segments. `SurvivingOffsets` answers in the place of `log.offset_map.OffsetMap`, and
`PartialTransactions` in that of `CleanedTransactions`, so that `log.filtering` decides everything else as it does for a broker.

A pass of the broker's cleaner sees a log from its start; a task sees a part of it. The marker of a transaction that may have begun before
the part is therefore kept, whether or not data of it is left: markers may stay too long, but never go too early.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from milepost.log.cleaning.cleaned_transactions import CleanedTransactions
from milepost.log.cleaning.filtering import BatchFilter
from milepost.record.batches import AnyBatch
from milepost.record.kernel import Columns
from milepost.record.records import Record
from milepost.segment.txn_index import AbortedTransaction

NULL = -1


class SurvivingOffsets:
    def __init__(self, offsets: array[int], latest_offset: int):
        """`offsets` rise; what lies behind `latest_offset` survives anyway."""
        self.offsets = offsets
        self.latest_offset = latest_offset

    def __contains__(self, offset: int) -> bool:
        at = bisect_left(self.offsets, offset)
        return offset > self.latest_offset or (at < len(self.offsets) and self.offsets[at] == offset)

    def keep_batches(
        self, buffer: bytes, start: int, upper_bound: int, now_ms: int
    ) -> tuple[int, list[tuple[int, int, int, int, int]], int, int]:
        """No batch is judged without a look at its records."""
        return start, [], 0, 0

    def keep_records(self, columns: Columns, buffer: object, keep_tombstones: bool) -> tuple[int, int, int]:
        """Reduce the columns of one batch to what survives: (how many, how many had no key, how many kept have no value)."""
        offsets, values = columns.offsets, columns.value_length
        count = len(offsets)
        if offsets[0] > self.latest_offset:
            return count, 0, values.count(NULL)
        low = bisect_left(self.offsets, offsets[0])
        newest = self.offsets[low : bisect_left(self.offsets, offsets[-1] + 1, low)]
        keyless = columns.key_length.count(NULL)
        tombstones = values.count(NULL)
        if len(newest) == count and (keep_tombstones or not tombstones):
            return count, keyless, tombstones
        wanted = set(newest)
        kept = [
            row
            for row, offset in enumerate(offsets)
            if (offset in wanted and (keep_tombstones or values[row] != NULL)) or offset > self.latest_offset
        ]
        for name in Columns.__slots__:
            column = getattr(columns, name)
            setattr(columns, name, array(column.typecode, [column[row] for row in kept]))
        return len(kept), keyless, columns.value_length.count(NULL)


class SurvivorFilter(BatchFilter):
    """The filter of the cleaner, asked about offsets instead of keys."""

    __slots__ = ()

    def _survives(self, record: Record, keep_tombstones: bool) -> bool:
        """Of the old formats."""
        survivors = self.offset_map
        assert isinstance(survivors, SurvivingOffsets)
        return record.offset in survivors and (record.value is not None or keep_tombstones)


class PartialTransactions(CleanedTransactions):
    def __init__(self, aborted: Iterable[AbortedTransaction], first_offset: int, is_first: bool):
        super().__init__(aborted, first_offset)
        self._is_first = is_first
        self._met: set[int] = set()

    def is_discardable(self, batch: AnyBatch) -> bool:
        if not self._is_first and batch.producer_id >= 0 and batch.producer_id not in self._met:
            self._met.add(batch.producer_id)
            if batch.is_control:
                # Its data may lie before this part of the log.
                self._seen_aborted.add(batch.producer_id)
                self._seen_committed.add(batch.producer_id)
        return super().is_discardable(batch)
