"""The xerial stream around snappy blocks, byte by byte."""

from __future__ import annotations

import pytest

from milepost.codec.xerial import compress, decompress
from milepost.errors import InvalidRecord

ABC = "82534e4150505900 00000001 00000001 00000005 0308616263"
HEADER = "82534e4150505900 00000001 00000001"


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def test_three_bytes_as_the_specification_writes_them():
    assert compress(b"abc") == octets(ABC)
    assert decompress(octets(ABC), 3) == b"abc"


def test_a_block_ends_every_32768_bytes():
    stream = compress(bytes(32768 + 1))
    first = int.from_bytes(stream[16:20], "big")
    second = int.from_bytes(stream[20 + first : 24 + first], "big")
    assert stream[20:23] == octets("808002")  # 32768 as a varint
    assert stream[24 + first] == 1
    assert len(stream) == 24 + first + second


def test_block_without_a_stream_around_it():
    assert decompress(octets("0308616263"), 3) == b"abc"


def test_repeated_header_between_chunks():
    assert decompress(octets(ABC, ABC), 6) == b"abcabc"
    assert decompress(octets(HEADER, HEADER, "00000005 0308616263"), 6) == b"abc"


def test_header_alone_is_an_empty_stream():
    assert decompress(octets(HEADER), 0) == b""
    assert decompress(compress(b""), 0) == b""


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ("", "no data"),
        ("82534e4150505900 000000", "stream header at byte 0 is cut: 11 of 16 bytes"),
        ("82534e4150505900 00000000 00000001", "stream version 0 at byte 8"),
        (HEADER + "00000005 0308616263 0000", "2 bytes at byte 25 where a chunk length"),
        (HEADER + "ffffffff 0308616263", "chunk length -1 at byte 16, 5 bytes are left"),
        (HEADER + "7fffffff 0308616263", "chunk length 2147483647 at byte 16, 5 bytes are left"),
        (HEADER + "00000000", "chunk length 0 at byte 16"),
        (HEADER + "00000006 0308616263", "chunk length 6 at byte 16, 5 bytes are left"),
        (HEADER + "00000005 0308616263" + "82534e4150505900", "stream header at byte 25 is cut"),
        ("0308616263 00", "damaged"),
        ("04 08616263", "damaged"),
        ("ffffffffffff", "does not start with its length"),
        ("ffffffff0f 08616263", "declares 4294967295 bytes, more than 22 times its size"),
        ("0401 61", "damaged"),
    ],
)
def test_damaged_stream(stream, sentence):
    with pytest.raises(InvalidRecord, match=sentence):
        decompress(octets(stream), 1 << 20)


def test_declared_sizes_are_summed_against_the_cap():
    with pytest.raises(InvalidRecord, match="snappy: the stream declares 6 bytes, 5 are allowed"):
        decompress(octets(ABC, ABC), 5)
