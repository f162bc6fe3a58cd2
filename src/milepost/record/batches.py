"""Batches one behind the other in memory, of any format: what a request or a chunk of a `.log` file holds.

Every batch or message begins with the same 17 bytes, which is all that is needed to step over it:

    byte  size  field
    0     8     offset (the base offset in magic 2, the last offset before)
    8     4     size of what follows this field
    12    4     leader epoch (magic 2) or CRC (magic 0 and 1)
    16    1     magic

The walk ends quietly where fewer than 17 bytes are left and at a batch whose end is not there: a read that was cut by size
ends like that. It raises CorruptRecord at a size that no batch of its magic can have, at one above `max_size`, and at a
magic outside 0..2. It checks no CRC: `ensure_valid` of each batch does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from milepost.codec.buffer import Buffer
from milepost.errors import CorruptRecord
from milepost.record.batch import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC, RecordBatch
from milepost.record.legacy import MESSAGE_OVERHEAD_V0, MESSAGE_OVERHEAD_V1, LegacyBatch

AnyBatch = RecordBatch | LegacyBatch

# The least a size field can say, by magic: a message with null key and null value, a batch without records.
MIN_SIZE_FIELD = (MESSAGE_OVERHEAD_V0, MESSAGE_OVERHEAD_V1, HEADER_SIZE - LOG_OVERHEAD)

_unpack_start = struct.Struct(">8xi4xb").unpack_from


def batch_at(buffer: Buffer, position: int, *, where: str = "") -> AnyBatch:
    """The batch that starts at `position`, in the format its magic byte names. Its end need not be there."""
    _, magic = parse_start(buffer, position, where=where)
    return RecordBatch(buffer, position) if magic == MAGIC else LegacyBatch(buffer, position)


def iter_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, max_size: int | None = None, where: str = ""
) -> Iterator[AnyBatch]:
    """Every whole batch of `buffer[start:end]`; `max_size` bounds the size field, `where` names the file in errors."""
    if end is None:
        end = len(buffer)
    position = start
    while end - position >= HEADER_SIZE_UP_TO_MAGIC:
        size, magic = parse_start(buffer, position, max_size=max_size, where=where)
        if size > end - position:
            return
        yield RecordBatch(buffer, position) if magic == MAGIC else LegacyBatch(buffer, position)
        position += size


def parse_start(buffer: Buffer, position: int, *, max_size: int | None = None, where: str = "") -> tuple[int, int]:
    """Whole size (size field + 12) and magic of the batch at `position`, from its first 17 bytes."""
    try:
        size_field, magic = _unpack_start(buffer, position)
    except struct.error as error:
        available = max(len(buffer) - position, 0)
        raise CorruptRecord(
            f"{_place(where, position)}: {available} bytes are left, a batch starts with {HEADER_SIZE_UP_TO_MAGIC}"
        ) from error
    if size_field < MESSAGE_OVERHEAD_V0:
        raise CorruptRecord(f"{_place(where, position)}: size field {size_field}, the smallest message has {MESSAGE_OVERHEAD_V0}")
    if max_size is not None and size_field > max_size:
        raise CorruptRecord(f"{_place(where, position)}: size field {size_field}, allowed are {max_size}")
    if not 0 <= magic <= MAGIC:
        raise CorruptRecord(f"{_place(where, position)}: magic {magic}, known are 0, 1 and 2")
    if size_field < MIN_SIZE_FIELD[magic]:
        raise CorruptRecord(
            f"{_place(where, position)}: size field {size_field}, the smallest of magic {magic} is {MIN_SIZE_FIELD[magic]}"
        )
    return LOG_OVERHEAD + size_field, magic


def _place(where: str, position: int) -> str:
    return f"{where}: batch at position {position}" if where else f"batch at position {position}"
