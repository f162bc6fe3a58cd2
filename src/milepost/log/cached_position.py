"""Where in its file the last read of a reader began, and where it ended if that was the end of the log.

A reader that keeps up asks for what stands right behind its last read, and one whose read brought too little asks for the same again. In
both cases the newest file is read from a position that is known, without a look at the index or a walk over batches.

A position is good for the file that it was found in, while that is the log's newest and nothing was cut from it (`FileRecords.cuts`): what
lies behind its bytes does not change otherwise. Everything else is a `Log.read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.segment.file_records import FileRecords, FileSlice

if TYPE_CHECKING:
    from milepost.log.log import Log

NOT_THE_END = -1


class CachedPosition(NamedTuple):
    records: FileRecords
    cuts: int
    offset: int
    """Was asked for, and is in the batch at `position`."""
    position: int
    end_offset: int
    """Of the log at that time, or NOT_THE_END when the read ended before it."""
    end_position: int

    @classmethod
    def after_read(cls, log: Log, offset: int, found: FileSlice) -> CachedPosition:
        records, end = found.records, found.position + found.size
        is_all = records is log.segments.active.log and end == records.size_in_bytes
        return cls(records, records.cuts, offset, found.position, log.end_offset if is_all else NOT_THE_END, end)

    def read(self, log: Log, offset: int, bound: int, limit: int) -> FileSlice | None:
        """Everything from an offset to the end of the log, if the position is known, `bound` lies there, and the limit allows it all."""
        records = log.segments.active.log
        if self.records is not records or self.cuts != records.cuts or records.holes or log.is_failed:
            return None
        if bound != log.end_offset or not log.start_offset <= offset < bound:
            return None
        if offset == self.end_offset:
            position = self.end_position
        elif offset == self.offset:
            position = self.position
        else:
            return None
        return records.slice(position, limit) if records.size_in_bytes - position <= limit else None
