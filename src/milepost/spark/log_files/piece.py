"""A stretch of one segment file that a task reads, and the offsets it is to give.

The plan keeps what the file was: its inode and how many bytes it had. A task reads no byte behind that, and notices when the
name stands for another file by then.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.spark.log_files.listing import SegmentFile
from milepost.spark.offset_range import OffsetRange
from milepost.spark.transport import Split
from milepost.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Piece:
    partition: TopicPartition
    segment: SegmentFile
    next_base: int
    """Where the next segment starts: an offset from there on in this file is one too many."""
    start: int
    end: int
    """Offsets; rows outside are not given."""
    position: int
    end_position: int
    """Bytes; a batch starts at both, unless the end is only where an index says that enough was read."""
    data_end: int
    """Up to which byte the file holds data; behind that there may be a write in progress."""
    is_exact: bool
    """Whether a batch with the offset `end`, or the end of the data, was seen at `end_position`."""

    @property
    def size(self) -> int:
        return self.end_position - self.position

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.partition, self.start, self.end)


class PieceSplit(Split):
    """A task that reads pieces of files."""

    __slots__ = ()
    pieces: tuple[Piece, ...]

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        return tuple(piece.offsets for piece in self.pieces)

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)
