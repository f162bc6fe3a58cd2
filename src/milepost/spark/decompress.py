"""Decompression for the row lane: the same streams and the same caps as `codec.compression`."""

from __future__ import annotations

from milepost.codec import compression
from milepost.codec.buffer import Buffer
from milepost.codec.compression import Codec


def decompress(codec: Codec, data: Buffer, max_size: int) -> Buffer:
    return compression.decompress(codec, data, max_size=max_size)
