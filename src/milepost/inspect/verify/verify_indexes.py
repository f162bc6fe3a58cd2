"""The two sparse indexes of a segment, checked against the batches as they pass.

The walk over the `.log` hands every batch to both checks once; the entries of an index are in the order of the log, so one pass
settles them all.

    offset index   (offset, position): a batch starts at `position`, and one from there up to the next entry's position ends at `offset`.
                   Usually that is the batch itself; Kafka before 3.9.1 wrote one entry for several batches that came in one append,
                   and its cleaner the last record kept, where the batch reaches further.
    time index     (timestamp, offset): nothing up to `offset` is newer than `timestamp`, and `timestamp` is the largest of the batch
                   that `offset` lies in: at its end, or (Kafka before 3.8) at the record that has it. A sealed index ends with the
                   largest timestamp of its segment.

Entries must rise; behind the first that does not, the rest of the index says nothing and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from milepost.errors import MilepostError
from milepost.inspect.index_files import IndexFile, last_offset, offset_entries, time_entries
from milepost.record.batch import NO_TIMESTAMP
from milepost.record.batches import AnyBatch
from milepost.record.kernel import check_entries
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.time_index import TimestampOffset

NEVER = 1 << 64
Say = Callable[[str, int], None]  # what is wrong, and at which byte of the index


def ordered_entries(index: IndexFile, say: Say) -> int:
    """How many entries, from the first on, rise as they should."""
    if index.odd:
        say(f"{len(index.data)} bytes are not a whole number of {index.entry.size}-byte entries", len(index.data) - index.odd)
    broken = check_entries(index.data, index.entries, index.entry.size)
    if broken < 0:
        return index.entries
    slot = index.entry.unpack_from(index.data, broken * index.entry.size)
    say(f"entry {broken} holds {slot}, which does not follow the entry before it", broken * index.entry.size)
    return broken


class OffsetIndexCheck:
    """`next_position` is where the walk must call `reach`; `awaited` is the offset that a batch has to end at."""

    def __init__(self, index: IndexFile, say: Say):
        self._say = say
        self._slot = -1
        self._left = ordered_entries(index, say)
        self._entries: Iterator[OffsetPosition] = offset_entries(index)
        self._entry = OffsetPosition(-1, -1)
        self._next = OffsetPosition(-1, NEVER)
        self.awaited = -1
        self.next_position = NEVER
        self._advance()

    def _advance(self) -> None:
        self._slot += 1
        if self._slot < self._left:
            self._next = next(self._entries)
            self.next_position = self._next.position
        else:
            self.next_position = NEVER

    def reach(self, position: int) -> None:
        """A batch starts at `position`, at or behind the next entry's."""
        self._settle()
        while self.next_position <= position:
            entry, slot = self._next, self._slot
            self._advance()
            if entry.position == position:
                self._entry, self.awaited = entry, entry.offset
            else:
                self._say(f"entry {slot} points to position {entry.position}, where no batch starts", slot * 8)

    def skip(self, end: int) -> None:
        """The log is damaged up to `end`: entries that point there cannot be judged."""
        self.awaited = -1
        while self.next_position < end:
            self._advance()

    def _settle(self) -> None:
        if self.awaited >= 0:
            entry = self._entry
            self._say(f"no batch from position {entry.position} up to the next entry ends at offset {entry.offset}", (self._slot - 1) * 8)
            self.awaited = -1

    def finish(self, end: int) -> int:
        """The walk is over at position `end`; the number of entries that point behind it."""
        self._settle()
        return self._left - self._slot


class TimeIndexCheck:
    """`next_offset` is the offset whose batch must be handed to `reach`."""

    def __init__(self, index: IndexFile, say: Say, look_inside: bool):
        self._say = say
        self._look_inside = look_inside
        self._slot = -1
        self._left = ordered_entries(index, say)
        self.is_ordered = self._left == index.entries
        self.last_offset = last_offset(index) if self._left and self.is_ordered else -1
        self._entries: Iterator[TimestampOffset] = time_entries(index)
        self._entry = TimestampOffset(NO_TIMESTAMP, NEVER)
        self.last_timestamp = NO_TIMESTAMP
        self.next_offset = NEVER
        self._advance()

    def _advance(self) -> None:
        self._slot += 1
        if self._slot < self._left:
            self._entry = next(self._entries)
            self.next_offset, self.last_timestamp = self._entry.offset, self._entry.timestamp
        else:
            self.next_offset = NEVER

    def reach(self, batch: AnyBatch, first_offset: int, newest_before: int) -> None:
        """The batch reaches up to the next entry's offset or further; `newest_before` is the largest timestamp in front of it."""
        while self.next_offset <= batch.last_offset:
            entry, place = self._entry, self._slot * 12
            if entry.offset < first_offset:
                self._say(f"entry {self._slot} stands for offset {entry.offset}, which lies in no batch", place)
            elif newest_before > entry.timestamp:
                what = f"entry {self._slot} says {entry.timestamp}, and a record before offset {entry.offset} has {newest_before}"
                self._say(what, place)
            elif batch.max_timestamp != entry.timestamp or (entry.offset != batch.last_offset and not self._has(batch, entry)):
                self._say(
                    f"entry {self._slot} says that offset {entry.offset} brought timestamp {entry.timestamp}, "
                    f"and the largest of its batch is {batch.max_timestamp}",
                    place,
                )
            self._advance()

    def _has(self, batch: AnyBatch, entry: TimestampOffset) -> bool:
        if not self._look_inside:
            return True
        try:
            return any(record.offset == entry.offset and record.timestamp == entry.timestamp for record in batch.records())
        except MilepostError:
            return True  # the batch itself is reported

    def skip(self, next_offset: int) -> None:
        """The log is damaged in front of `next_offset`: entries for offsets before it cannot be judged."""
        while self.next_offset < next_offset:
            self._advance()

    def finish(self) -> int:
        """The number of entries that stand for offsets behind the end of the segment."""
        return self._left - self._slot
