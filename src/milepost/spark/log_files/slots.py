"""The offset index of one segment, for planning: where to begin for an offset, where to stop, where to cut.

An entry (offset, position) says that a batch starts at `position`, and that the offset lies in it or in one that was appended
with it. So

    floor(offset)    the last entry not past it: every record from `offset` on lies at its position or behind
    beyond(offset)   the entry behind the first that reaches it: every record below `offset` lies before its position
    near(position)   the last entry not behind a position: a place to cut a file

An index is a hint. Zeros at its end are slots that were never used; one whose entries do not rise is not used at all. Whoever takes a
position from here looks at the batch there before trusting it.
"""

from __future__ import annotations

import logging

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect import index_files
from milepost.record.kernel import check_entries
from milepost.segment.offset_index import OffsetPosition

logger = logging.getLogger("milepost.spark")


class Slots:
    def __init__(self, base_offset: int, data: bytes, entries: int):
        self.base_offset = base_offset
        self._data = data
        self.entries = entries

    @classmethod
    def read(cls, disk: Disk, path: str, base_offset: int) -> Slots:
        """The entries of the file; none when it is missing or out of order."""
        try:
            found = index_files.read_offset_index(disk, path, base_offset)
        except FileNotFoundError:
            return cls(base_offset, b"", 0)
        except KafkaStorage as error:
            logger.warning("%s; the segment is read without its index", error)
            return cls(base_offset, b"", 0)
        broken = check_entries(found.data, found.entries, found.entry.size)
        if broken >= 0:
            logger.warning("%s: entry %d does not follow the one before it; the segment is read without its index", path, broken)
            return cls(base_offset, b"", 0)
        return cls(base_offset, found.data, found.entries)

    def entry(self, slot: int) -> OffsetPosition:
        relative_offset, position = index_files.OFFSET_ENTRY.unpack_from(self._data, slot * 8)
        return OffsetPosition(self.base_offset + relative_offset, position)

    def floor(self, offset: int) -> OffsetPosition | None:
        slot = self._last(offset - self.base_offset, 0)
        return None if slot < 0 else self.entry(slot)

    def beyond(self, offset: int) -> OffsetPosition | None:
        slot = self._last(offset - 1 - self.base_offset, 0) + 2
        return self.entry(slot) if slot < self.entries else None

    def near(self, position: int) -> OffsetPosition | None:
        slot = self._last(position, 1)
        return None if slot < 0 else self.entry(slot)

    def last(self) -> OffsetPosition | None:
        return self.entry(self.entries - 1) if self.entries else None

    def _last(self, target: int, field: int) -> int:
        """The last slot whose field is not above `target`, or -1."""
        unpack, data = index_files.OFFSET_ENTRY.unpack_from, self._data
        low, high = -1, self.entries - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if unpack(data, middle * 8)[field] <= target:
                low = middle
            else:
                high = middle - 1
        return low
