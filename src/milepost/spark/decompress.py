"""Decompression for the row lane: the same streams and the same caps as `codec.compression`, and zstd three times as fast.

A batch of 16 kB takes zstd longer to prepare than to unpack, unless its context is kept, which the package `zstandard` does (the extra
[spark] brings it). It is asked for the plain case only: one frame of no more than the bytes allowed. Whatever it does not like is
given to the codec that everybody else uses, which then unpacks it or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost.codec import compression
from milepost.codec.buffer import Buffer
from milepost.codec.compression import Codec

# What comes out of a batch is rarely more than this many times as large; if it is, the other way takes over.
USUAL_RATIO, LEAST_ROOM = 20, 1 << 17


def decompress(codec: Codec, data: Buffer, max_size: int) -> Buffer:
    """What was compressed, if that is at most `max_size` bytes; InvalidRecord otherwise."""
    if codec is Codec.ZSTD and _zstd is not None:
        found = _zstd(data, max_size)
        if found is not None:
            return found
    return compression.decompress(codec, data, max_size=max_size)


def _quick_zstd() -> Callable[[Buffer, int], bytes | None] | None:
    try:
        import zstandard
    except ImportError:
        return None
    context: Any = zstandard.ZstdDecompressor()

    def unpack(data: Buffer, max_size: int) -> bytes | None:
        try:
            # A declared size is memory that is taken before anything is unpacked: it is looked at first.
            if zstandard.frame_content_size(data) > max_size:
                return None
            room = min(max(LEAST_ROOM, USUAL_RATIO * len(data)), max_size)
            content: bytes = context.decompress(data, max_output_size=room, allow_extra_data=False)
        except zstandard.ZstdError:
            return None
        return content if len(content) <= max_size else None

    return unpack


_zstd = _quick_zstd()
