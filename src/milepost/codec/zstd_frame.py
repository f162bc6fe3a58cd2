"""Zstandard streams: one or more frames, with or without their content size.

    bytes    field               meaning
    4        magic               28 b5 2f fd; 5? 2a 4d 18 starts a skippable frame (4 bytes LE size, then that many to skip)
    1        descriptor          bits 7-6 content size width, 5 single segment, 3 reserved, 2 checksum, 1-0 dictionary id width
    0 or 1   window descriptor   absent in a single segment
    0 to 4   dictionary id       none of Kafka's clients writes one
    0 to 8   content size
    then blocks:
    3        block header, LE    bit 0 last, bits 2-1 type (raw, run, compressed), the rest size
    n        data                1 byte for a run
    0 or 4   checksum

The JVM writes no content size, and 2 kB can hold 64 MiB. So the frames are walked first: block headers bound
what can come out (a compressed block gives at most 128 KiB), and memory is taken for that bound or the
allowed size, whichever is smaller. The library does the decoding and every check inside a block.
"""

from __future__ import annotations

import cramjam

from milepost.codec.buffer import Buffer
from milepost.errors import DecompressedTooLarge, InvalidRecord

MAGIC = 0xFD2FB528
SKIPPABLE_MAGIC = 0x184D2A50  # the low 4 bits are free
MAX_BLOCK = 128 * 1024
DEFAULT_LEVEL = 3
MAX_LEVEL, MIN_LEVEL = 22, -131072

RUN_BLOCK, COMPRESSED_BLOCK, RESERVED_BLOCK = 1, 2, 3


def compress(data: Buffer, level: int = DEFAULT_LEVEL) -> bytes:
    return bytes(cramjam.zstd.compress(memoryview(data), level=level))


def decompress(data: Buffer, max_size: int) -> bytearray:
    view = memoryview(data)
    bound = _output_bound(view, max_size)
    out = bytearray(min(bound, max_size))
    try:
        size = int(cramjam.zstd.decompress_into(view, out))
    except cramjam.DecompressionError as error:
        if bound > max_size and "write whole buffer" in str(error):
            raise DecompressedTooLarge(f"zstd: the stream is larger than the {max_size} bytes allowed") from None
        raise InvalidRecord(f"zstd: the stream of {len(view)} bytes is damaged: {error}") from None
    del out[size:]  # in place: a copy would take the memory of a second one
    return out


def _output_bound(view: memoryview, max_size: int) -> int:
    """No more than this comes out of the stream. Stops counting when it passes `max_size`."""
    bound = 0
    position = 0
    if not view:
        raise InvalidRecord("zstd: no data, a frame was expected")
    while position < len(view) and bound <= max_size:
        magic = _little_endian(view, position, 4)
        if magic & ~0xF == SKIPPABLE_MAGIC:
            position += 8 + _little_endian(view, position + 4, 4)
        elif magic == MAGIC:
            frame_bound, position = _frame_bound(view, position, max_size - bound)
            bound += frame_bound
        else:
            found = view[position : position + 4].hex(" ")
            raise InvalidRecord(f"zstd: {found} at byte {position}, a frame starts with 28 b5 2f fd")
    if position > len(view):
        raise InvalidRecord(f"zstd: the stream should end at byte {position}, the data ends at {len(view)}")
    return bound


def _frame_bound(view: memoryview, start: int, max_size: int) -> tuple[int, int]:
    """What the frame can give at most, and the position behind it (or where counting stopped)."""
    descriptor = _little_endian(view, start + 4, 1)
    position = start + 5
    single_segment = descriptor & 0x20
    max_block = MAX_BLOCK
    if not single_segment:
        window = _little_endian(view, position, 1)
        base = 1 << (10 + (window >> 3))
        max_block = min(MAX_BLOCK, base + base // 8 * (window & 7))
        position += 1
    position += (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    content_size = None
    if width:
        content_size = _little_endian(view, position, width) + (256 if width == 2 else 0)
        position += width
    bound = 0
    last = 0
    while not last:
        header = _little_endian(view, position, 3)
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == RESERVED_BLOCK:
            raise InvalidRecord(f"zstd: a block of reserved type 3 at byte {position}")
        bound += max_block if kind == COMPRESSED_BLOCK else size
        position += 3 + (1 if kind == RUN_BLOCK else size)
        if bound > max_size and content_size is None:
            return bound, position
    if content_size is not None:
        bound = min(bound, content_size)
    return bound, position + (4 if descriptor & 4 else 0)


def _little_endian(view: memoryview, position: int, width: int) -> int:
    if len(view) - position < width:
        raise InvalidRecord(f"zstd: cut inside a field of {width} bytes at byte {position}, the data ends at {len(view)}")
    return int.from_bytes(view[position : position + width], "little")
