"""Snappy as Kafka's Java clients frame it (the xerial stream), and the bare block of other writers.

    bytes  field                    value
    8      magic                    82 53 4e 41 50 50 59 00
    4      version                  1
    4      min compatible version   1
    then, until the end:
    4      compressed length        n
    n      one raw snappy block     starts with its uncompressed length, an unsigned varint

The writer cuts a block every 32768 bytes. The reader takes a repeated header wherever a chunk may start
(streams glued together), and data without the magic as one raw block (librdkafka).
"""

from __future__ import annotations

import struct

import cramjam

from milepost.codec.buffer import Buffer
from milepost.errors import DecompressedTooLarge, InvalidRecord

MAGIC = b"\x82SNAPPY\x00"
HEADER = MAGIC + struct.pack(">ii", 1, 1)
BLOCK_SIZE = 32768
# The densest element of a block is 3 bytes for 64; a block that promises more lies, and is not given memory.
MAX_RATIO = 22

_int = struct.Struct(">i")


def compress(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [HEADER]
    for start in range(0, len(view), BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + BLOCK_SIZE]))
        parts += (_int.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Buffer, max_size: int) -> bytearray:
    view = memoryview(data)
    blocks = _chunks(view) if view[:8] == MAGIC else [view]
    sizes = [_declared_size(block) for block in blocks]
    if sum(sizes) > max_size:
        raise DecompressedTooLarge(f"snappy: the stream declares {sum(sizes)} bytes, {max_size} are allowed")
    out = bytearray(sum(sizes))
    room = memoryview(out)
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            cramjam.snappy.decompress_raw_into(block, room[position : position + size])
        except cramjam.DecompressionError as error:
            raise InvalidRecord(f"snappy: a block of {len(block)} bytes is damaged: {error}") from None
        position += size
    return out


def _chunks(view: memoryview) -> list[memoryview]:
    blocks = []
    position = 0
    while position < len(view):
        if view[position : position + 8] == MAGIC:
            left = len(view) - position
            if left < len(HEADER):
                raise InvalidRecord(f"snappy: the stream header at byte {position} is cut: {left} of {len(HEADER)} bytes")
            (version,) = _int.unpack_from(view, position + 8)
            if version < 1:
                raise InvalidRecord(f"snappy: stream version {version} at byte {position + 8}, 1 or more was expected")
            position += len(HEADER)
            continue
        if len(view) - position < 4:
            raise InvalidRecord(f"snappy: {len(view) - position} bytes at byte {position} where a chunk length of 4 was expected")
        (size,) = _int.unpack_from(view, position)
        position += 4
        if not 0 < size <= len(view) - position:
            raise InvalidRecord(f"snappy: chunk length {size} at byte {position - 4}, {len(view) - position} bytes are left")
        blocks.append(view[position : position + size])
        position += size
    return blocks


def _declared_size(block: memoryview) -> int:
    if not block:
        raise InvalidRecord("snappy: no data, a block of at least 1 byte was expected")
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise InvalidRecord(f"snappy: a block of {len(block)} bytes does not start with its length: {error}") from None
    if size > len(block) * MAX_RATIO:
        raise InvalidRecord(f"snappy: a block of {len(block)} bytes declares {size} bytes, more than {MAX_RATIO} times its size")
    return size
