"""Compression of record batches: one entry point per direction, five codecs, Kafka's framings.

    id  name    framing                                              levels
    0   none    -                                                    -
    1   gzip    one gzip member, no file name, mtime 0               1 to 9, default -1 (zlib chooses 6)
    2   snappy  xerial stream (`xerial.py`)                          -
    3   lz4     frame of independent 64 KiB blocks (`lz4_frame.py`)  1 to 17, default 9 (the fast compressor)
    4   zstd    one zstd frame (`zstd_frame.py`); magic 2 only       -131072 to 22, default 3

Decompression is capped: output beyond `max_size` is refused, and no length that the data declares makes us take
more memory than that (plus one block). Whatever is wrong with a stream (damage, a cut, bytes behind its end, too
much output) is an InvalidRecord: the checksum of the batch around it was right, so sending it again will not
help. Codec ids 5 to 7 are UnsupportedCompressionType.

Not promised: the same bytes as the JVM's compressors. Only the framing is the same, and what comes out.
"""

from __future__ import annotations

import enum
import struct
import zlib

from milepost.codec import lz4_frame, xerial, zstd_frame
from milepost.codec.buffer import Buffer
from milepost.errors import DecompressedTooLarge, InvalidArgument, InvalidRecord, UnsupportedCompressionType

# The largest batch a broker takes by default is 1 MiB compressed; zstd can make 32 GiB of that.
DEFAULT_MAX_DECOMPRESSED = 128 * 1024 * 1024


class Codec(enum.IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVELS = {Codec.GZIP: range(-1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(zstd_frame.MIN_LEVEL, zstd_frame.MAX_LEVEL + 1)}
DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: lz4_frame.FAST_LEVEL, Codec.ZSTD: zstd_frame.DEFAULT_LEVEL}

# FLG, mtime and XFL zero, OS "unknown", as the JDK writes it.
GZIP_HEADER = bytes.fromhex("1f8b08 00 00000000 00 ff")
GZIP_WITH_HEADER, RAW_DEFLATE = 31, -15


def compress(codec: Codec, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """One stream holding `data`. `magic` is that of the batch it goes into: 0 gets Kafka's broken lz4 header."""
    codec = _known(codec)
    level = _checked_level(codec, level)
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return _gzip(data, level)
    if codec is Codec.SNAPPY:
        return xerial.compress(data)
    if codec is Codec.LZ4:
        return lz4_frame.compress(data, level, broken_header=magic == 0)
    if magic < 2:
        raise InvalidArgument(f"zstd is not allowed in a batch of magic {magic}, only of magic 2")
    return zstd_frame.compress(data, level)


def decompress(codec: Codec, data: Buffer, *, max_size: int = DEFAULT_MAX_DECOMPRESSED, magic: int = 2) -> Buffer:
    """What `compress` was given, if that is at most `max_size` bytes; InvalidRecord otherwise (DecompressedTooLarge if that is why)."""
    codec = _known(codec)
    if codec is Codec.NONE:
        if len(data) > max_size:
            raise DecompressedTooLarge(f"none: the stream has {len(data)} bytes, {max_size} are allowed")
        return bytes(data)
    if codec is Codec.GZIP:
        return _gunzip(data, max_size)
    if codec is Codec.SNAPPY:
        return xerial.decompress(data, max_size)
    if codec is Codec.LZ4:
        return lz4_frame.decompress(data, max_size, ignore_header_checksum=magic == 0)
    if magic < 2:
        raise InvalidRecord(f"zstd in a batch of magic {magic}; only magic 2 may carry it")
    return zstd_frame.decompress(data, max_size)


def _known(codec: int) -> Codec:
    try:
        return Codec(codec)
    except ValueError:
        known = ", ".join(f"{codec.value} {codec.name.lower()}" for codec in Codec)
        raise UnsupportedCompressionType(f"compression codec {codec} is unknown; known are {known}") from None


def _checked_level(codec: Codec, level: int | None) -> int:
    if level is None:
        return DEFAULT_LEVELS.get(codec, 0)
    levels = LEVELS.get(codec)
    if levels is None:
        raise InvalidArgument(f"{codec.name.lower()} has no compression levels, {level} was given")
    if level not in levels or (codec is Codec.GZIP and level == 0):
        raise InvalidArgument(f"{codec.name.lower()} level {level}; {levels.start} to {levels.stop - 1} are possible")
    return level


def _gzip(data: Buffer, level: int) -> bytes:
    # zlib's own header would name the operating system and the level.
    deflate = zlib.compressobj(level, zlib.DEFLATED, RAW_DEFLATE)
    trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFF_FFFF)
    return b"".join((GZIP_HEADER, deflate.compress(data), deflate.flush(), trailer))


def _gunzip(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    size = 0
    position = 0
    step = len(view)
    while position < len(view):
        inflate = zlib.decompressobj(GZIP_WITH_HEADER)
        member = position
        while not inflate.eof:
            if position >= len(view):
                raise InvalidRecord(f"gzip: the member at byte {member} is cut, the data ends at {len(view)}")
            try:
                part = inflate.decompress(view[position : position + step], max_size - size + 1)
            except zlib.error as error:
                raise InvalidRecord(f"gzip: the member at byte {member} is damaged: {error}") from None
            size += len(part)
            if size > max_size:
                raise DecompressedTooLarge(f"gzip: the stream is larger than the {max_size} bytes allowed")
            parts.append(part)
            position = min(position + step, len(view))
            step *= 2
        # Further members are read in small steps first: what one does not use is copied, and thousands of
        # tiny members would copy the whole rest each time.
        position -= len(inflate.unused_data)
        step = 512
    if not parts:
        raise InvalidRecord("gzip: no data, a member was expected")
    return parts[0] if len(parts) == 1 else b"".join(parts)
