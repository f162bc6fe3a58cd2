"""A `.log` file as it lies on disk: every batch, and every stretch of bytes that is none.

The walk trusts nothing. A batch counts when it is whole, of a known magic, of a size its magic allows, and its CRC is right.
Where that fails, the next valid batch is looked for: right behind the bad one if its size can be believed, else byte by byte.
What lies between is one `Damage`:

    is_tail   no valid batch lies behind it: a write that was cut short, zeros that were never written to, or a last batch that changed
    a hole    a valid batch lies behind it: bytes that were good once and are not any more

The file is read in pieces, never mapped: a broker that cuts it meanwhile must not kill the reader. It is read up to the size it
had when it was opened.

The CRC does not cover the offset, so a batch may be valid and carry a wrong one. Unless the walk is told to take offsets as
they are, a batch counts only if it starts behind the one before it, ends before the next segment, and does not jump ahead of
the batch that follows it.

Not checked here: what is inside a batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptRecord
from milepost.files import Disk
from milepost.inspect.paths import MAX_OFFSET, ensure_regular, open_regular
from milepost.record.batch import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC, RecordBatch
from milepost.record.batches import MIN_SIZE_FIELD, AnyBatch
from milepost.record.kernel import find_batch
from milepost.record.legacy import LegacyBatch
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET

CHUNK = 1 << 20
# How far the search for the next valid batch looks at once, and the largest batch that it finds for certain.
WINDOW, OVERLAP = 64 << 20, 16 << 20

_start_of = struct.Struct(">8xi4xb").unpack_from


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `position` to `end` that are no valid batch. `batch` is what the header there says, if there is a header.

    `is_offset`: the batch is whole and its CRC is right, only its offset is not. `is_short`: the file ends before the batch does.
    """

    position: int
    end: int
    reason: str
    is_tail: bool
    batch: AnyBatch | None = None
    is_zero: bool = False
    is_offset: bool = False
    is_short: bool = False

    @property
    def size(self) -> int:
        return self.end - self.position

    @property
    def looks_torn(self) -> bool:
        """What a write leaves that was cut short. Bytes that are all there and wrong were right once."""
        return self.is_tail and (self.is_short or self.is_zero)


class LogFile:
    def __init__(self, disk: Disk, path: str, base_offset: int = 0, max_offset: int | None = None):
        """`max_offset` is the last offset that can be in the file: the next segment's base bounds it."""
        self.disk = disk
        self.path = path
        self.base_offset = base_offset
        self.max_offset = base_offset + MAX_RELATIVE_OFFSET if max_offset is None else max_offset
        self.size = ensure_regular(disk, path)
        self._fd = open_regular(disk, path)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.disk.close(self._fd)

    def read(self, position: int, size: int) -> bytes:
        data = self.disk.pread(self._fd, size, position)
        if len(data) < size:
            raise CorruptRecord(f"{self.path}: {len(data)} bytes at position {position}, where {size} were; the file was cut meanwhile")
        return data

    def walk(
        self, end: int | None = None, check_offsets: bool = True, *, start: int = 0, next_offset: int | None = None
    ) -> Iterator[tuple[int, AnyBatch | Damage]]:
        """Every valid batch and every damage, in order, each with its position in the file.

        A walk that does not begin at the start of the file is told the lowest offset that may come next.
        """
        end = self.size if end is None else min(end, self.size)
        chunk, chunk_start, position = b"", start, start
        next_offset = self.base_offset if next_offset is None else next_offset
        while position < end:
            at = position - chunk_start
            if at + HEADER_SIZE_UP_TO_MAGIC > len(chunk):
                chunk, chunk_start, at = self.read(position, min(CHUNK, end - position)), position, 0
            reason, is_offset, is_short = _impossible(chunk, at), False, end - position < HEADER_SIZE_UP_TO_MAGIC
            if not reason:
                size_field, magic = _start_of(chunk, at)
                size = LOG_OVERHEAD + size_field
                if size > end - position:
                    reason, is_short = f"the batch there has {size} bytes, and {end - position} are left", True
                else:
                    if at + size > len(chunk):
                        chunk, chunk_start, at = self.read(position, min(max(CHUNK, size), end - position)), position, 0
                    batch: AnyBatch = RecordBatch(chunk, at) if magic == MAGIC else LegacyBatch(chunk, at)
                    if not batch.is_valid():
                        reason = f"its CRC is {computed_crc(batch):#010x}, and its header says {batch.crc:#010x}"
                    elif check_offsets:
                        reason = self._wrong_offset(batch, position + size, end, next_offset)
                        is_offset = bool(reason)
                    if not reason:
                        yield position, batch
                        position += size
                        next_offset = batch.last_offset + 1
                        continue
            damage = self.damage_at(position, end, next_offset, reason, is_offset, is_short)
            yield position, damage
            position = damage.end

    def _wrong_offset(self, batch: AnyBatch, behind: int, end: int, next_offset: int) -> str:
        """Why the offsets of a valid batch cannot be right; empty when they can."""
        last_offset = batch.last_offset
        first_offset = _first_offset(batch)
        if first_offset == next_offset and first_offset <= last_offset <= self.max_offset:
            return ""
        if first_offset < next_offset:
            return f"it starts at offset {first_offset}, and the batch before it ends at {next_offset - 1}"
        if last_offset < first_offset:
            return f"it starts at offset {first_offset} and ends at {last_offset}"
        if last_offset > self.max_offset:
            return f"it ends at offset {last_offset}, and {self.max_offset} is the last that can be in this segment"
        following = self._header_at(behind, end) if behind < end else None
        goes_back = following is not None and next_offset <= _first_offset(following) <= last_offset
        if goes_back and self._is_valid_at(behind, end, next_offset):
            return f"it starts at offset {first_offset}, where {next_offset} is next and the batch behind it starts before that"
        return ""

    def damage_at(
        self, position: int, end: int, next_offset: int, reason: str, is_offset: bool = False, is_short: bool = False
    ) -> Damage:
        """How far bytes go that are no valid batch: up to the next one that is, or to the end."""
        batch = self._header_at(position, end)
        found = self._next_valid(position, end, next_offset, batch)
        tail = self.read(position, min(end - position, CHUNK))
        is_zero = found is None and not tail.strip(b"\0") and self._is_zero(position, end)
        return Damage(position, end if found is None else found, reason, found is None, batch, is_zero, is_offset, is_short)

    def _header_at(self, position: int, end: int) -> AnyBatch | None:
        header = self.read(position, min(HEADER_SIZE, end - position))
        if _impossible(header, 0):
            return None
        try:
            return RecordBatch(header) if header[16] == MAGIC else LegacyBatch(header)
        except CorruptRecord:
            return None

    def _next_valid(self, position: int, end: int, next_offset: int, batch: AnyBatch | None) -> int | None:
        if batch is not None and position + batch.size < end and self._is_valid_at(position + batch.size, end, next_offset):
            return position + batch.size
        start = position + 1
        while start < end:
            window = self.read(start, min(WINDOW, end - start))
            found = find_batch(window, 0, len(window), min(next_offset, MAX_OFFSET), min(self.max_offset, MAX_OFFSET))
            if found >= 0:
                return start + found
            if start + len(window) >= end:
                return None
            start += len(window) - OVERLAP
        return None

    def _is_valid_at(self, position: int, end: int, next_offset: int) -> bool:
        header = self._header_at(position, end)
        if header is None or header.size > end - position or not next_offset <= header.last_offset <= self.max_offset:
            return False
        data = self.read(position, header.size)
        return (RecordBatch(data) if header.magic == MAGIC else LegacyBatch(data)).is_valid()

    def _is_zero(self, position: int, end: int) -> bool:
        return all(not self.read(at, min(CHUNK, end - at)).strip(b"\0") for at in range(position, end, CHUNK))


def _first_offset(batch: AnyBatch) -> int:
    """A set of an old format tells its first offset only when it is unpacked; its last one is enough to compare."""
    return batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset


def computed_crc(batch: AnyBatch) -> int:
    """Of a batch that is whole in its buffer: CRC-32C from byte 21 on for magic 2, CRC-32 from byte 16 on before."""
    start, end = batch.position, batch.position + batch.size
    if batch.magic == MAGIC:
        return crc32c(memoryview(batch.buffer)[start + 21 : end])
    return zlib.crc32(memoryview(batch.buffer)[start + 16 : end])


def _impossible(buffer: bytes, at: int) -> str:
    """Why no batch can start here, judged by its first 17 bytes; empty when one can."""
    if len(buffer) - at < HEADER_SIZE_UP_TO_MAGIC:
        return f"{len(buffer) - at} bytes are left, and a batch starts with {HEADER_SIZE_UP_TO_MAGIC}"
    size_field, magic = _start_of(buffer, at)
    if not 0 <= magic <= MAGIC:
        return f"magic {magic} is unknown; 0, 1 and 2 are known"
    if size_field < MIN_SIZE_FIELD[magic]:
        return f"its size field says {size_field}, and the smallest batch of magic {magic} has {MIN_SIZE_FIELD[magic]}"
    return ""
