"""The offset index of one segment: which byte of the `.log` to start reading for a given offset.

On disk (`00000000000000000251.index`), entries sorted by offset, no header, no checksum:

    bytes  field            meaning
    4      relative_offset  last offset of a batch, minus the segment's base offset (so four bytes suffice)
    4      position         where that batch starts in the `.log`

The index is sparse: an entry appears after more than `index.interval.bytes` of log, so a lookup finds the last
entry *not past* the target and the reader scans forward from there. The first batch never has an entry;
offsets below the first entry start at position 0.

Not promised: that the file survives a crash. It is rebuilt from the log when it fails its checks.
"""

from __future__ import annotations

import struct

from milepost.errors import IndexOffsetOverflow, InvalidArgument, InvalidOffset
from milepost.frozen_dataclass import frozen_dataclass
from milepost.segment.sparse_index import SparseIndex
from milepost.segment.trace import Trace

ENTRY_SIZE = 8
MAX_RELATIVE_OFFSET = 2**31 - 1


@frozen_dataclass
class OffsetPosition:
    offset: int
    position: int

    def __str__(self) -> str:
        return f"offset {self.offset} at position {self.position}"


class OffsetIndex(SparseIndex):
    entry_struct = struct.Struct(">ii")
    entry_size = ENTRY_SIZE

    def _loaded(self) -> None:
        self.last_offset = self.entry(self.entries - 1).offset if self.entries else self.base_offset

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def entry(self, slot: int) -> OffsetPosition:
        relative_offset, position = self.raw_entry(slot)
        return OffsetPosition(self.base_offset + relative_offset, position)

    def lookup(self, target: int, trace: Trace | None = None) -> OffsetPosition:
        """The greatest entry not past `target`, or the start of the segment."""
        slot = self.floor_slot(target - self.base_offset, trace)
        return OffsetPosition(self.base_offset, 0) if slot is None else self.entry(slot)

    def upper_bound(self, start: OffsetPosition, size: int) -> OffsetPosition | None:
        """The first entry that lies behind `size` bytes from `start`: no offset of those bytes reaches it."""
        slot = self.floor_slot(start.position + size, field=1)
        if slot is None:
            slot = -1
        elif self.entry(slot).position == start.position + size:
            slot -= 1
        return self.entry(slot + 1) if slot + 1 < self.entries else None

    def append(self, offset: int, position: int) -> None:
        relative_offset = offset - self.base_offset
        if self.is_full:
            raise InvalidArgument(
                f"{self.path}: full with {self.entries} entries of at most {self.max_entries}; roll the segment first"
            )
        if not 0 <= relative_offset <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflow(
                f"{self.path}: offset {offset} does not fit four bytes relative to base {self.base_offset}; roll the segment first"
            )
        if self.entries and offset <= self.last_offset:
            raise InvalidOffset(
                f"{self.path}: offset {offset} is not above the last entry, {self.last_offset} (slot {self.entries - 1})"
            )
        self.write_entry(relative_offset, position)
        self.last_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Drop every entry at or above `offset`."""
        slot = self.floor_slot(offset - self.base_offset)
        if slot is None:
            self.keep_entries(0)
        else:
            self.keep_entries(slot if self.entry(slot).offset == offset else slot + 1)
