"""Zstandard frames: with and without content size, in a row, skippable, and everything the reader refuses."""

from __future__ import annotations

import pytest

from milepost.codec.zstd_frame import compress, decompress
from milepost.errors import InvalidRecord

MAGIC = "28b52ffd"
# Descriptor 00: no content size. Window 58: 2 MiB, as the JVM writes it. One raw block.
STREAMED_ABC = MAGIC + "00 58 190000 616263"
# Descriptor 20: a single segment, one byte of content size.
SIZED_ABC = MAGIC + "20 03 190000 616263"


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


@pytest.mark.parametrize("frame", [STREAMED_ABC, SIZED_ABC])
def test_frame_with_and_without_content_size(frame):
    assert decompress(octets(frame), 3) == b"abc"
    with pytest.raises(InvalidRecord, match="zstd: the stream is larger than the 2 bytes allowed"):
        decompress(octets(frame), 2)


def test_frames_in_a_row_are_one_stream():
    assert decompress(octets(STREAMED_ABC, SIZED_ABC, STREAMED_ABC), 9) == b"abcabcabc"


def test_skippable_frame_is_skipped():
    assert decompress(octets("502a4d18 02000000 ffff", STREAMED_ABC, "5f2a4d18 00000000"), 3) == b"abc"


def test_empty_frame():
    assert decompress(compress(b""), 0) == b""
    assert decompress(octets(MAGIC, "00 58 010000"), 0) == b""


def test_run_block():
    assert decompress(octets(MAGIC, "00 58", "23000078"), 4) == b"xxxx"


def test_content_size_of_every_width():
    for size in (255, 256, 65791, 65792, 5_000_000):
        data = bytes(size)
        assert decompress(compress(data), size) == data


def test_checksum_is_checked():
    right = octets(MAGIC, "04 58 010000 99e9d851")  # the low half of xxh64 of nothing
    assert decompress(right, 0) == b""
    with pytest.raises(InvalidRecord, match="damaged"):
        decompress(right[:-1] + b"\0", 0)


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ("", "no data"),
        ("28b52f", "cut inside a field of 4 bytes at byte 0, the data ends at 3"),
        ("27b52ffd 00 58 190000 616263", "27 b5 2f fd at byte 0, a frame starts with 28 b5 2f fd"),
        (STREAMED_ABC + "00", "cut inside a field of 4 bytes at byte 12"),
        (STREAMED_ABC + "67617262616765", "67 61 72 62 at byte 12, a frame starts with"),
        (MAGIC + "00 58 190000 6162", "should end at byte 12, the data ends at 11"),
        (MAGIC + "00 58 1f0000 616263", "a block of reserved type 3 at byte 6"),
        (MAGIC + "00 58 180000 616263", "cut inside a field of 3 bytes at byte 12"),
        (MAGIC + "04 58 010000 99e9d8", "should end at byte 13, the data ends at 12"),
        (MAGIC + "08 58 190000 616263", "damaged"),
        (MAGIC + "01 58 07 190000 616263", "damaged"),
        (MAGIC + "00 a8 190000 616263", "damaged"),
        (MAGIC + "20 02 190000 616263", "damaged"),
        (MAGIC + "20 04 190000 616263", "damaged"),
        (MAGIC + "00 58 1d0000 616263", "damaged"),
        ("502a4d18 05000000 ffff", "should end at byte 13, the data ends at 10"),
    ],
    ids=lambda value: value.replace(" ", "")[:24],
)
def test_damaged_stream(stream, sentence):
    with pytest.raises(InvalidRecord, match=sentence):
        decompress(octets(stream), 1 << 20)


def test_declared_content_size_takes_no_memory():
    # 2^62 bytes declared, 3 there.
    with pytest.raises(InvalidRecord, match="damaged"):
        decompress(octets(MAGIC, "e0 0000000000000040 190000 616263"), 1 << 20)
