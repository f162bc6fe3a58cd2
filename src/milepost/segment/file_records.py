"""The `.log` file of one segment: record batches back to back, and nothing else.

Each batch, of any format, starts with twelve bytes (LogOverhead) that are enough to step over it, and carries its
magic at byte 16:

    bytes  field   meaning
    8      offset  magic 2: the first offset of the batch; magic 0 and 1: the last
    4      size    bytes behind this field
    …      batch

The file only grows at its end. A reader that walks it stops cleanly before a batch that is not all there; a size
below 14 (such as the zeros of a preallocated tail) is damage. `read` and `slice` cut anywhere and promise nothing
about batch boundaries.

A *hole* is a stretch of damaged bytes with whole batches behind it. Walks step over holes; a lookup that ends inside
one raises CorruptRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from milepost.errors import CorruptRecord, InvalidArgument
from milepost.files import Handle
from milepost.frozen_dataclass import frozen_dataclass
from milepost.record.batch import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, NO_TIMESTAMP, RecordBatch
from milepost.record.batches import batch_at
from milepost.record.legacy import MESSAGE_OVERHEAD_V0
from milepost.segment.trace import LogScan

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch

MAX_SIZE = 2**31 - 1
CHUNK = 1 << 20
HEADER_CHUNK = 4096
_size_at = struct.Struct(">i").unpack_from
_v2_fields = struct.Struct(">q15xi8xq").unpack_from
_legacy_offset = struct.Struct(">q").unpack_from
_v1_timestamp = struct.Struct(">18xq").unpack_from


@frozen_dataclass
class BatchPosition:
    """Where a batch lies, and what its header says without being asked twice."""

    last_offset: int
    position: int
    size: int
    max_timestamp: int


@frozen_dataclass
class FoundRecord:
    """The record that answers a question about time, and where its batch starts."""

    offset: int
    timestamp: int
    position: int
    leader_epoch: int


@frozen_dataclass
class Hole:
    """Damaged bytes from `position` to `end`, where the offsets from `first_offset` up to `next_offset` should be."""

    position: int
    end: int
    first_offset: int
    next_offset: int


@frozen_dataclass
class FileSlice:
    """A stretch of a `.log` file that has not been read yet: a server may hand it to sendfile."""

    records: FileRecords
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.records.read(self.position, self.size)


@frozen_dataclass
class SegmentRead:
    """Batches from one segment. The first holds the offset asked for; the last may be cut short by the size limit."""

    first: BatchPosition
    data: FileSlice
    first_entry_incomplete: bool


class FileRecords:
    def __init__(self, handle: Handle, size: int):
        if size > MAX_SIZE:
            raise InvalidArgument(f"{handle.path}: {size} bytes; a segment holds at most {MAX_SIZE}")
        self.handle = handle
        self.disk = handle.disk
        self.size_in_bytes = size
        self.holes: list[Hole] = []
        self.cuts = 0
        """How often bytes were cut off: a position that was found before may be anywhere now."""

    @property
    def path(self) -> str:
        return self.handle.path

    def append(self, buffers: Sequence[ReadableBuffer], size: int) -> None:
        """Add `size` bytes at the end. If the disk takes only a part of them, that part is cut off again before the error is raised."""
        position = self.size_in_bytes
        if position + size > MAX_SIZE:
            raise InvalidArgument(f"{self.path}: {position} bytes and {size} more; a segment holds at most {MAX_SIZE}")
        fd = self.handle.fd
        try:
            self.disk.pwritev(fd, buffers, position, size)
        except OSError:
            # A torn piece left here would hide every later batch.
            self.disk.truncate(fd, position)
            raise
        self.size_in_bytes = position + size

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self.size_in_bytes - position)
        data = self.disk.pread(self.handle.fd, size, position) if size > 0 else b""
        if size > 0 and len(data) < size:
            raise CorruptRecord(
                f"{self.path}: {len(data)} bytes at position {position}, where {size} were; the file was cut by somebody else"
            )
        return data

    def slice(self, position: int, size: int) -> FileSlice:
        return FileSlice(self, position, max(0, min(size, self.size_in_bytes - position)))

    def truncate_to(self, size: int) -> int:
        """Cut the file; the number of bytes that went."""
        if not 0 <= size <= self.size_in_bytes:
            raise InvalidArgument(f"{self.path}: cannot cut {self.size_in_bytes} bytes to {size}")
        cut = self.size_in_bytes - size
        self.cuts += 1
        self.disk.truncate(self.handle.fd, size)
        self.size_in_bytes = size
        self.holes = [hole for hole in self.holes if hole.end <= size]
        return cut

    def trim(self) -> None:
        """Drop a preallocated tail."""
        if self.disk.size(self.handle.fd) != self.size_in_bytes:
            self.disk.truncate(self.handle.fd, self.size_in_bytes)

    def flush(self) -> None:
        self.disk.fsync(self.handle.fd)

    # Walking.

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, AnyBatch]]:
        """Every whole batch between two positions, with where it starts. Bodies are read in large pieces and not checked."""
        end = self.size_in_bytes if end is None else end
        chunk, chunk_start, position = b"", start, start
        holes = iter([hole for hole in self.holes if hole.position >= start])
        hole = next(holes, None)
        while True:
            if hole is not None and position == hole.position:
                position, hole = hole.end, next(holes, None)
            if position >= end - HEADER_SIZE_UP_TO_MAGIC:
                return
            at = position - chunk_start
            if at + HEADER_SIZE_UP_TO_MAGIC > len(chunk):
                chunk, chunk_start, at = self.read(position, min(CHUNK, end - position)), position, 0
            size = self.checked_size(chunk, at, position)
            if position + size > end:
                return
            if at + size > len(chunk):
                chunk, chunk_start, at = self.read(position, min(max(CHUNK, size), end - position)), position, 0
            yield position, batch_at(chunk, at, where=self.path)
            position += size

    def checked_size(self, buffer: bytes, at: int, position: int) -> int:
        size: int = _size_at(buffer, at + 8)[0]
        if size < MESSAGE_OVERHEAD_V0:
            raise CorruptRecord(
                f"{self.path}: the batch at position {position} says it has {size} bytes; {MESSAGE_OVERHEAD_V0} is the least"
            )
        return LOG_OVERHEAD + size

    def search_for(self, offset: int, start: int = 0) -> BatchPosition | None:
        """The first batch from position `start` on whose last offset is not below `offset`. Reads headers only."""
        found = None
        for found in self.positions(start):
            if found.last_offset >= offset:
                break
        else:
            found = None
        for hole in self.holes:
            if hole.position >= start and hole.first_offset <= offset < hole.next_offset:
                raise CorruptRecord(
                    f"{self.path}: offset {offset} lies in damaged bytes {hole.position} to {hole.end}; "
                    f"offsets {hole.first_offset} to {hole.next_offset - 1} are lost here, seek to {hole.next_offset} or run repair"
                )
        return found

    def ensure_walked(self, offset: int, start: int) -> None:
        """A walk ends quietly before a batch that is not all there: damage, in a file whose size is known."""
        end = start
        for place in self.positions(start):
            end = place.position + place.size
        for hole in self.holes:
            end = hole.end if hole.position == end else end
        if end < self.size_in_bytes:
            raise CorruptRecord(
                f"{self.path}: from position {end} on no whole batch follows, and {self.size_in_bytes - end} bytes are left; "
                f"offset {offset} cannot be found behind them, run verify"
            )

    def start_of(self, offset: int, start: int = 0) -> int:
        """Where the first batch or hole begins that reaches `offset`, from position `start` on; the end when none does."""
        found = [hole.position for hole in self.holes if hole.position >= start and hole.next_offset > offset]
        for place in self.positions(start):
            if place.last_offset >= offset:
                found.append(place.position)
                break
        return min(found, default=self.size_in_bytes)

    def search_for_timestamp(self, timestamp: int, start_offset: int, start: int = 0) -> tuple[FoundRecord | None, LogScan]:
        """The first record not older than `timestamp` and not below `start_offset`, from position `start` on; and what the walk passed.

        A batch whose largest timestamp is older is stepped over by its header; only the others are read.
        """
        skipped = rejected = 0
        for place in self.positions(start):
            if place.max_timestamp < timestamp or place.last_offset < start_offset:
                skipped += 1
                continue
            _, batch = next(self.batches(place.position, place.position + place.size))
            record, before = batch.first_record(timestamp, start_offset)
            rejected += before
            if record is not None:
                found = FoundRecord(record.offset, record.timestamp, place.position, batch.partition_leader_epoch)
                return found, LogScan(self.path, start, place.position, place.position - start, skipped, rejected)
        return None, LogScan(self.path, start, None, self.size_in_bytes - start, skipped, rejected)

    def positions(self, start: int = 0) -> Iterator[BatchPosition]:
        """Every whole batch from position `start` on, from a few bytes of each header."""
        for position, size, chunk, at in self._walk_headers(start):
            magic = chunk[at + 16]
            if magic >= 2:
                base_offset, last_offset_delta, max_timestamp = _v2_fields(chunk, at)
                yield BatchPosition(base_offset + last_offset_delta, position, size, max_timestamp)
            else:
                timestamp = _v1_timestamp(chunk, at)[0] if magic == 1 else NO_TIMESTAMP
                yield BatchPosition(_legacy_offset(chunk, at)[0], position, size, timestamp)

    def headers(self, start: int = 0) -> Iterator[AnyBatch]:
        """Every whole batch as far as its header: `records` and `is_valid` of these views do not work."""
        for _, _, chunk, at in self._walk_headers(start):
            yield batch_at(chunk, at, where=self.path)

    def _walk_headers(self, start: int) -> Iterator[tuple[int, int, bytes, int]]:
        """Position and size of each whole batch, and where its header lies in a piece of the file."""
        end = self.size_in_bytes
        chunk, chunk_start, position = b"", start, start
        holes = {hole.position: hole.end for hole in self.holes}
        while True:
            position = holes.get(position, position)
            if position >= end - HEADER_SIZE_UP_TO_MAGIC:
                return
            at = position - chunk_start
            if at + HEADER_SIZE > len(chunk):
                chunk, chunk_start, at = self.read(position, HEADER_CHUNK), position, 0
            size = self.checked_size(chunk, at, position)
            if position + size > end:
                return
            yield position, size, chunk, at
            position += size

    def header_at(self, position: int) -> AnyBatch:
        """The batch at `position`, as far as its header: its records are not read."""
        header = self.read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE_UP_TO_MAGIC:
            raise CorruptRecord(f"{self.path}: no batch starts at position {position} of {self.size_in_bytes}")
        if header[16] >= 2:
            return RecordBatch(header)
        return batch_at(self.read(position, self.checked_size(header, 0, position)), 0, where=self.path)
