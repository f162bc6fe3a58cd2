"""The time index of one segment: up to which offset all records are no newer than a given time.

On disk (`00000000000000000251.timeindex`), entries sorted by timestamp, no header, no checksum:

    bytes  field            meaning
    8      timestamp        the largest timestamp of the segment so far, milliseconds since the epoch
    4      relative_offset  the offset that brought it, minus the segment's base offset

Read it as: everything newer than `timestamp` comes *after* that offset. An entry is tried whenever the offset index
gets one, and once more when the segment rolls or closes; it is written only when its timestamp is above the last
one's. Records that arrive out of time order therefore leave no trace here, and a segment without timestamps has an
empty file.

The last slot is kept free for the closing entry, so the index counts as full one entry early. With twelve bytes an
entry it fills before the offset index does, and then it is what ends the segment.

Not promised: that the file survives a crash. It is rebuilt from the log when it fails its checks.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from milepost.errors import IndexOffsetOverflow, InvalidArgument, InvalidOffset
from milepost.record.batch import NO_TIMESTAMP
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.sparse_index import SparseIndex
from milepost.segment.trace import Trace

ENTRY_SIZE = 12


class TimestampOffset(NamedTuple):
    """A tuple and not a dataclass: most batches bring a larger timestamp, and one is made for each of those."""

    timestamp: int
    offset: int

    def __str__(self) -> str:
        return f"timestamp {self.timestamp} at offset {self.offset}"


class TimeIndex(SparseIndex):
    entry_struct = struct.Struct(">qi")
    entry_size = ENTRY_SIZE

    def _loaded(self) -> None:
        self.last_entry = self.entry(self.entries - 1) if self.entries else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries - 1

    def entry(self, slot: int) -> TimestampOffset:
        timestamp, relative_offset = self.raw_entry(slot)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def lookup(self, timestamp: int, trace: Trace | None = None) -> TimestampOffset:
        """The greatest entry not past `timestamp`, or the start of the segment."""
        slot = self.floor_slot(timestamp, trace)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot is None else self.entry(slot)

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        """Note the largest timestamp so far, if it grew. `closing` may use the slot kept for the end of the segment."""
        if self.is_full and not closing:
            raise InvalidArgument(
                f"{self.path}: full with {self.entries} entries of at most {self.max_entries}, one kept for the roll"
            )
        last = self.last_entry
        if self.entries and offset < last.offset:
            raise InvalidOffset(
                f"{self.path}: offset {offset} is below the last entry's, {last.offset} (slot {self.entries - 1})"
            )
        if self.entries and timestamp < last.timestamp:
            raise InvalidArgument(f"{self.path}: timestamp {timestamp} is below the last entry's, {last.timestamp}")
        if timestamp <= last.timestamp:
            return
        relative_offset = offset - self.base_offset
        if not 0 <= relative_offset <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflow(f"{self.path}: offset {offset} does not fit four bytes relative to base {self.base_offset}")
        self.write_entry(timestamp, relative_offset)
        self.last_entry = TimestampOffset(timestamp, offset)

    def truncate_to(self, offset: int) -> None:
        """Drop every entry whose offset is at or above `offset`."""
        slot = self.floor_slot(offset - self.base_offset, field=1)
        if slot is None:
            self.keep_entries(0)
        else:
            self.keep_entries(slot if self.entry(slot).offset == offset else slot + 1)
