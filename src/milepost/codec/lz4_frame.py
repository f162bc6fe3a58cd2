"""The LZ4 frame as Kafka writes and reads it. Java refuses linked blocks, so every block stands alone.

    bytes   field             value
    4       magic             04 22 4d 18
    1       FLG               60: version 01, independent blocks; 10 block checksums, 08 content size, 04 content checksum
    1       BD                40: blocks of at most 64 KiB (codes 4 to 7: 64 KiB, 256 KiB, 1 MiB, 4 MiB)
    0 or 8  content size      skipped, not trusted
    1       HC                second byte of xxh32(FLG .. content size)
    then blocks:
    4       size, LE          top bit set: stored as is; 0: end mark
    n       data
    0 or 4  block checksum    xxh32 of the data, checked when FLG says it is there
    after the end mark:
    0 or 4  content checksum  consumed, not checked (as Kafka)

Magic 0 sets carry Kafka's old mistake: HC was computed over the magic as well (`1a` instead of `82`), so
for them the writer repeats it and the reader does not look at HC.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

from milepost.codec.buffer import Buffer
from milepost.errors import DecompressedTooLarge, InvalidRecord

MAGIC = b"\x04\x22\x4d\x18"
VERSION_1 = 0x40
INDEPENDENT_BLOCKS = 0x20
BLOCK_CHECKSUM = 0x10
CONTENT_SIZE = 0x08
CONTENT_CHECKSUM = 0x04
RESERVED_FLG, RESERVED_BD = 0x03, 0x8F
FLG, BD = VERSION_1 | INDEPENDENT_BLOCKS, 0x40
BLOCK_SIZE = 64 * 1024
STORED = 0x8000_0000
END_MARK = bytes(4)
FAST_LEVEL = 9  # Kafka's default level is its fast compressor; every other level is the high compressor
LEAST_HIGH_LEVEL, MOST_HIGH_LEVEL = 3, 12  # of the C library; Kafka's levels go from 1 to 17
MAX_RATIO = 255

_u32 = struct.Struct("<I")


def header_checksum(header: bytes) -> int:
    """Second byte of xxh32 with seed 0. Headers are shorter than 16 bytes, so its wide lanes never run."""
    assert len(header) < 16
    mask = 0xFFFF_FFFF
    accumulator = 374761393 + len(header)
    whole = len(header) & ~3
    for (word,) in _u32.iter_unpack(header[:whole]):
        accumulator = (accumulator + word * 3266489917) & mask
        accumulator = (_rotate_left(accumulator, 17) * 668265263) & mask
    for byte in header[whole:]:
        accumulator = (accumulator + byte * 374761393) & mask
        accumulator = (_rotate_left(accumulator, 11) * 2654435761) & mask
    accumulator = ((accumulator ^ (accumulator >> 15)) * 2246822519) & mask
    accumulator = ((accumulator ^ (accumulator >> 13)) * 3266489917) & mask
    return (accumulator ^ (accumulator >> 16)) >> 8 & 0xFF


def _rotate_left(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFF_FFFF


def _header(flg: int, bd: int, *, broken: bool = False) -> bytes:
    fields = bytes((flg, bd))
    return MAGIC + fields + bytes((header_checksum(MAGIC + fields if broken else fields),))


HEADER = _header(FLG, BD)
BROKEN_HEADER = _header(FLG, BD, broken=True)


def compress(data: Buffer, level: int = FAST_LEVEL, *, broken_header: bool = False) -> bytes:
    view = memoryview(data)
    parts = [BROKEN_HEADER if broken_header else HEADER]
    parts += _fast_blocks(view) if level == FAST_LEVEL else _high_blocks(view, level)
    parts.append(END_MARK)
    return b"".join(parts)


def _fast_blocks(view: memoryview) -> Iterator[bytes]:
    for start in range(0, len(view), BLOCK_SIZE):
        raw = view[start : start + BLOCK_SIZE]
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(packed) < len(raw):
            yield _u32.pack(len(packed)) + packed
        else:
            yield _u32.pack(len(raw) | STORED) + bytes(raw)


def _high_blocks(view: memoryview, level: int) -> Iterator[bytes]:
    """The library's block call knows no levels and its frame call adds block checksums: take the blocks out of that frame."""
    level = min(max(level, LEAST_HIGH_LEVEL), MOST_HIGH_LEVEL)
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(view))
    frame = memoryview(bytes(compressor.finish()))
    flg, bd, position = _read_header(frame, ignore_header_checksum=False)
    assert bd == BD and flg & INDEPENDENT_BLOCKS
    for start, size, _ in _blocks(frame, position, BLOCK_SIZE, flg):
        yield bytes(frame[start - 4 : start + size])


def decompress(data: Buffer, max_size: int, *, ignore_header_checksum: bool = False) -> bytearray:
    view = memoryview(data)
    flg, bd, position = _read_header(view, ignore_header_checksum)
    max_block = 1 << (8 + 2 * (bd >> 4))
    checksum_size = 4 if flg & BLOCK_CHECKSUM else 0
    blocks = _blocks(view, position, max_block, flg)
    # Blocks say their compressed size only; no block may grow past `max_block`, nor 255-fold.
    bound = sum(size if stored else min(max_block, size * MAX_RATIO) for _, size, stored in blocks)
    out = bytearray(min(bound, max_size + max_block))
    written = 0
    with memoryview(out) as room:
        for start, size, stored in blocks:
            block = view[start : start + size]
            with room[written : written + max_block] as target:
                try:
                    if checksum_size:
                        written += _checked_block(view[start - 4 : start + size + checksum_size], bd, target)
                    elif stored:
                        target[:size] = block
                        written += size
                    else:
                        written += cramjam.lz4.decompress_block_into(block, target, output_len=len(target))
                except cramjam.DecompressionError as error:
                    raise InvalidRecord(f"lz4: the block of {size} bytes at byte {start} is damaged: {error}") from None
            if written > max_size:
                raise DecompressedTooLarge(f"lz4: the stream is larger than the {max_size} bytes allowed")
    del out[written:]  # in place: a copy would take the memory of a second one
    return out


def _checked_block(framed: memoryview, bd: int, target: memoryview) -> int:
    """One block with its checksum as a frame of its own, so that the C library verifies it."""
    frame = b"".join((_header(FLG | BLOCK_CHECKSUM, bd), framed, END_MARK))
    return int(cramjam.lz4.decompress_into(frame, target))


def _read_header(view: memoryview, ignore_header_checksum: bool) -> tuple[int, int, int]:
    """FLG, BD and the position of the first block."""
    if len(view) < 7:
        raise InvalidRecord(f"lz4: {len(view)} bytes are no frame, its header alone takes 7")
    if bytes(view[:7]) == HEADER:  # what nearly everybody writes
        return FLG, BD, 7
    if view[:4] != MAGIC:
        raise InvalidRecord(f"lz4: the stream starts with {view[:4].hex(' ')}, a frame with 04 22 4d 18")
    flg, bd = view[4], view[5]
    if flg & 0xC0 != VERSION_1:
        raise InvalidRecord(f"lz4: frame version {flg >> 6}, only 1 is known")
    if not flg & INDEPENDENT_BLOCKS:
        raise InvalidRecord(f"lz4: linked blocks (FLG 0x{flg:02x}); Kafka's clients read independent ones only (FLG 0x60)")
    if flg & RESERVED_FLG or bd & RESERVED_BD or bd >> 4 < 4:
        raise InvalidRecord(f"lz4: FLG 0x{flg:02x} and BD 0x{bd:02x} use reserved bits or a block size code outside 4 to 7")
    end = 14 if flg & CONTENT_SIZE else 6
    if len(view) <= end:
        raise InvalidRecord(f"lz4: the frame header is cut: {len(view)} of {end + 1} bytes")
    expected = header_checksum(bytes(view[4:end]))
    if view[end] != expected and not ignore_header_checksum:
        raise InvalidRecord(f"lz4: header checksum 0x{view[end]:02x} at byte {end}, 0x{expected:02x} was expected")
    return flg, bd, end + 1


def _blocks(view: memoryview, position: int, max_block: int, flg: int) -> list[tuple[int, int, bool]]:
    """Every block as (start of its data, size, stored). Nothing may follow the end mark and its checksum."""
    blocks = []
    checksum_size = 4 if flg & BLOCK_CHECKSUM else 0
    while True:
        if len(view) - position < 4:
            raise InvalidRecord(f"lz4: the frame ends at byte {len(view)} without its end mark")
        (word,) = _u32.unpack_from(view, position)
        position += 4
        size = word & ~STORED
        if size == 0:
            break
        if size > max_block:
            raise InvalidRecord(f"lz4: a block of {size} bytes at byte {position}, the frame allows {max_block}")
        if size + checksum_size > len(view) - position:
            raise InvalidRecord(f"lz4: a block of {size} bytes at byte {position}, {len(view) - position} bytes are left")
        blocks.append((position, size, word >= STORED))
        position += size + checksum_size
    position += 4 if flg & CONTENT_CHECKSUM else 0
    if position != len(view):
        raise InvalidRecord(f"lz4: the frame should end at byte {position}, the data ends at {len(view)}")
    return blocks
