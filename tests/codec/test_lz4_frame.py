"""The LZ4 frame: header and block fields, the broken header of magic 0, and everything the reader refuses."""

from __future__ import annotations

import pytest

from milepost.codec.compression import Codec
from milepost.codec.compression import compress as compress_as
from milepost.codec.compression import decompress as decompress_as
from milepost.codec.lz4_frame import compress, decompress, header_checksum
from milepost.errors import InvalidRecord

STORED_ABC = "03000080 616263"
ZEROS_64K = bytes(65536)


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def test_three_bytes_are_stored_since_they_do_not_shrink():
    assert compress(b"abc") == octets("04224d18 60 40 82", STORED_ABC, "00000000")


def test_empty_frame():
    assert compress(b"") == octets("04224d18 60 40 82 00000000")
    assert decompress(compress(b""), 0) == b""


@pytest.mark.parametrize("level", [9, 1, 12])
def test_blocks_of_64_kib_that_stand_alone(level):
    data = ZEROS_64K + b"abcabcabcabcabcabcabcabc" * 100 + ZEROS_64K
    frame = compress(data, level)
    assert frame[:7] == octets("04224d18 60 40 82")
    position, sizes = 7, []
    while size := int.from_bytes(frame[position : position + 4], "little") & 0x7FFF_FFFF:
        # Each block alone in a frame gives its part of the data: none looks back into another.
        alone = frame[:7] + frame[position : position + 4 + size] + bytes(4)
        sizes.append(len(decompress(alone, 65536)))
        position += 4 + size
    assert sizes == [65536, 65536, 2400]
    assert position + 4 == len(frame)
    assert decompress(frame, len(data)) == data


def test_header_checksums_of_the_specification():
    assert header_checksum(octets("6040")) == 0x82
    assert header_checksum(octets("04224d186040")) == 0x1A
    assert header_checksum(octets("7040")) == 0xAD  # with block checksums, as the C library writes it


def test_magic_0_has_the_broken_header_and_reads_either():
    broken = compress_as(Codec.LZ4, b"abc", magic=0)
    right = compress_as(Codec.LZ4, b"abc", magic=1)
    assert (broken[6], right[6]) == (0x1A, 0x82)
    assert decompress_as(Codec.LZ4, broken, magic=0) == b"abc"
    assert decompress_as(Codec.LZ4, right, magic=0) == b"abc"
    for magic in (1, 2):
        assert decompress_as(Codec.LZ4, right, magic=magic) == b"abc"
        with pytest.raises(InvalidRecord, match="header checksum 0x1a at byte 6, 0x82 was expected"):
            decompress_as(Codec.LZ4, broken, magic=magic)


def test_content_size_is_skipped_and_not_believed():
    fields = "68 40 ffffffffffffff7f"
    checksum = f"{header_checksum(octets(fields)):02x}"
    assert decompress(octets("04224d18", fields, checksum, STORED_ABC, "00000000"), 3) == b"abc"


def test_content_checksum_is_consumed_and_not_checked():
    checksum = f"{header_checksum(octets('6440')):02x}"
    assert decompress(octets("04224d18 64 40", checksum, STORED_ABC, "00000000 deadbeef"), 3) == b"abc"


# xxh32 of "abc" with seed 0 is 0x32d153ff
BLOCK_CHECKSUMS = "04224d18 70 40 ad"


def test_block_checksums_are_checked():
    assert decompress(octets(BLOCK_CHECKSUMS, STORED_ABC, "ff53d132", "00000000"), 3) == b"abc"
    with pytest.raises(InvalidRecord, match="block of 3 bytes at byte 11 is damaged"):
        decompress(octets(BLOCK_CHECKSUMS, STORED_ABC, "fe53d132", "00000000"), 3)


def test_compressed_block_with_a_checksum():
    # A run of 64 KiB in one block, as the C library frames it.
    import cramjam

    compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    compressor.compress(ZEROS_64K + b"abc")
    frame = bytes(compressor.finish())
    assert frame[4] == 0x70
    assert decompress(frame, 65539) == ZEROS_64K + b"abc"
    with pytest.raises(InvalidRecord, match="larger than the 65538 bytes allowed"):
        decompress(frame, 65538)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ("", "0 bytes are no frame"),
        ("04224d186040", "6 bytes are no frame"),
        ("04224d19 60 40 82 00000000", "starts with 04 22 4d 19"),
        ("04224d18 20 40 82 00000000", "frame version 0"),
        ("04224d18 e0 40 82 00000000", "frame version 3"),
        ("04224d18 40 40 c0 00000000", "linked blocks .FLG 0x40."),
        ("04224d18 61 40 82 00000000", "FLG 0x61 and BD 0x40 use reserved bits"),
        ("04224d18 62 40 82 00000000", "FLG 0x62"),
        ("04224d18 60 c0 82 00000000", "BD 0xc0"),
        ("04224d18 60 41 82 00000000", "BD 0x41"),
        ("04224d18 60 30 82 00000000", "BD 0x30"),
        ("04224d18 60 40 83 00000000", "header checksum 0x83 at byte 6, 0x82 was expected"),
        ("04224d18 68 40 0300000000", "frame header is cut: 11 of 15 bytes"),
        ("04224d18 60 40 82", "ends at byte 7 without its end mark"),
        ("04224d18 60 40 82 03000080 616263", "ends at byte 14 without its end mark"),
        ("04224d18 60 40 82 04000080 616263", "a block of 4 bytes at byte 11, 3 bytes are left"),
        ("04224d18 60 40 82 01000100 616263", "a block of 65537 bytes at byte 11, the frame allows 65536"),
        ("04224d18 60 40 82 03000080 616263 00000000 00", "should end at byte 18, the data ends at 19"),
        ("04224d18 60 40 82 03000000 ffffff 00000000", "the block of 3 bytes at byte 11 is damaged"),
        ("04224d18 60 40 82 03000000 000000 00000000", "the block of 3 bytes at byte 11 is damaged"),
    ],
)
def test_damaged_frame(frame, sentence):
    with pytest.raises(InvalidRecord, match=sentence):
        decompress(octets(frame), 1 << 20)


def test_block_that_grows_past_the_maximum_of_its_frame():
    import cramjam

    block = bytes(cramjam.lz4.compress_block(bytes(65537), store_size=False))
    frame = octets("04224d18 60 40 82") + len(block).to_bytes(4, "little") + block + bytes(4)
    with pytest.raises(InvalidRecord, match="is damaged"):
        decompress(frame, 1 << 20)
