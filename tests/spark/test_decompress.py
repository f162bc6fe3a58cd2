"""Decompression for Spark gives what the codec gives, and refuses what it refuses."""

from __future__ import annotations

import contextlib
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from milepost.codec.compression import Codec, compress
from milepost.errors import InvalidRecord
from milepost.spark import decompress as module
from milepost.spark.decompress import decompress


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("content", [b"", b"x", b"page" * 5000, bytes(1 << 20)])
def test_what_was_compressed_comes_out(codec: Codec, content: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, content), 1 << 21)) == content


def test_zstd_without_a_declared_size_and_in_several_frames() -> None:
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    assert bytes(decompress(Codec.ZSTD, unsized.compress(b"abc" * 1000), 1 << 20)) == b"abc" * 1000
    # More than the usual ratio, so that the other way takes over.
    assert bytes(decompress(Codec.ZSTD, unsized.compress(bytes(1 << 22)), 1 << 23)) == bytes(1 << 22)
    assert bytes(decompress(Codec.ZSTD, compress(Codec.ZSTD, b"one") + compress(Codec.ZSTD, b"two"), 100)) == b"onetwo"


@pytest.mark.parametrize("size", [10_000, 999_999])
def test_more_than_is_allowed_is_refused(size: int) -> None:
    for packed in (
        compress(Codec.ZSTD, bytes(1_000_000)),
        zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1_000_000)),
    ):
        with pytest.raises(InvalidRecord, match=rf"zstd: the stream is larger than the {size} bytes allowed"):
            decompress(Codec.ZSTD, packed, size)


def test_declared_size_takes_no_memory() -> None:
    # Single segment, eight bytes of content size, one empty raw block.
    forged = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00"
    with pytest.raises(InvalidRecord):
        decompress(Codec.ZSTD, forged, 1 << 20)


@given(st.binary(min_size=1, max_size=200), st.integers(0), st.integers(1, 255))
def test_damaged_stream_is_refused_or_unpacked_and_nothing_else(content: bytes, place: int, change: int) -> None:
    packed = bytearray(compress(Codec.ZSTD, content))
    packed[place % len(packed)] ^= change
    with contextlib.suppress(InvalidRecord):
        assert len(decompress(Codec.ZSTD, bytes(packed), 1000)) <= 1000


def test_without_the_quick_way_the_codec_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_zstd", None)
    assert bytes(decompress(Codec.ZSTD, compress(Codec.ZSTD, b"abc"), 10)) == b"abc"
