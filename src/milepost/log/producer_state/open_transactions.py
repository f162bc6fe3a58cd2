"""The transactions of one log that a reader of committed data must still wait for, by their first offset.

An *open* transaction has no marker yet. A *completed* one has, but stays here until the high watermark passes the marker:
a reader may not depend on a marker that a new leader could be without. The *first unstable offset* is the lowest first
offset of both kinds; the last stable offset of the log is that, or the high watermark if nothing is unstable below it.
A transaction without data never appears.
"""

from __future__ import annotations

from collections import OrderedDict

from milepost.errors import InvalidArgument
from milepost.log.producer_state.producer_entry import CompletedTransaction


class Transactions:
    def __init__(self) -> None:
        # First offset -> producer id, ascending: the transactions of a log start one behind the other.
        self._open: OrderedDict[int, int] = OrderedDict()
        # First offset -> offset of the marker.
        self._completed: dict[int, int] = {}

    @property
    def oldest_producer_id(self) -> int | None:
        """Whose transaction has been open since the lowest offset."""
        return next(iter(self._open.values())) if self._open else None

    @property
    def first_unstable_offset(self) -> int | None:
        if not self._completed:
            return next(iter(self._open)) if self._open else None
        first = min(self._completed)
        return min(first, next(iter(self._open))) if self._open else first

    def open(self, first_offset: int, producer_id: int) -> None:
        is_last = not self._open or first_offset > next(reversed(self._open))
        self._open[first_offset] = producer_id
        if not is_last:  # only a snapshot brings them in another order
            self._open = OrderedDict(sorted(self._open.items()))

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Up to where committed data will be readable once this transaction is complete; asked before it is."""
        for first_offset, producer_id in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        if self._open.pop(completed.first_offset, None) is None:
            raise InvalidArgument(
                f"producer {completed.producer_id} completes a transaction from offset {completed.first_offset} "
                f"with the marker at {completed.last_offset}, but none is open there"
            )
        self._completed[completed.first_offset] = completed.last_offset

    def drop_completed_below(self, offset: int) -> None:
        """Forget completed transactions whose marker lies below `offset`."""
        if self._completed:
            self._completed = {first: marker for first, marker in self._completed.items() if marker >= offset}

    def clear(self) -> None:
        self._open.clear()
        self._completed.clear()
