"""Messages of magic 0 and 1: plain ones, wrappers as Kafka 2.4.1 wrote them, and every way a wrapper can be wrong."""

from __future__ import annotations

import struct

import pytest

from milepost.codec.compression import Codec, compress
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.batch import TimestampType
from milepost.record.legacy import LegacyBatch
from milepost.record.records import Record
from tests.record.legacy_messages import V0, V1, V1_GZIP_22_23, V1_GZIP_APPEND_TIME_37_38, message, offsets, wrapper

# Written by Kafka 2.4.1.
V0_GZIP_14_15 = bytes.fromhex(
    "000000000000000f00000092717720a20001ffffffff000000841f8b08000000000000ff636000033e20b65db645e02198c7946d0024754b8b538b740d0c"
    "0c75f41393f24b4bf42d2d0d2d740c0df40c8d2df40c0d4df48c8c8c754c0c4c744c4dcc0d2c21e630f0830cbae378f015d42043548332f352522bf42d4d"
    "cccd410619199be9199a030d3236d2313230d0313734b7300600dc85745992000000"
)
V0_LZ4_0 = bytes.fromhex(
    "00000000000000000000005bf2a66e120003ffffffff0000004d04224d1860401a3e000000160001005139001cec540f00f021026b300000002975736572"
    "2d3030312c2f636172742f383433342c31302e3232382e362e32322c3230302c343932353600000000"
)


V1_LZ4_APPEND_TIME_74_75 = bytes.fromhex(
    "000000000000004b0000006f77bdfc95010b000001a1de8b04a7ffffffff0000005904224d186040824a00000016000100f01a29f941b447010800000"
    "1a1de8b04a7000000026b3000000011617070656e642074696d65206c7a342015000002009b0100000029996ee01135001c31350050"
    "6c7a34203100000000"
)


# Plain messages


def test_a_plain_message_of_magic_0():
    batch = LegacyBatch(V0)
    batch.ensure_valid()
    assert (batch.magic, batch.size, batch.crc, batch.attributes) == (0, 28, 0x1FECD70A, 0)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (5, 5, 6, 0)
    assert batch.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    assert (batch.max_timestamp, batch.first_timestamp, batch.base_timestamp) == (-1, -1, -1)
    assert batch.record_count == 1
    assert batch.records() == [Record(5, -1, b"k", b"v")]


def test_a_plain_message_of_magic_1():
    batch = LegacyBatch(V1)
    batch.ensure_valid()
    assert (batch.magic, batch.size, batch.crc) == (1, 36, 0x39268C33)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert (batch.max_timestamp, batch.first_timestamp) == (1700000000000, 1700000000000)
    assert batch.records() == [Record(5, 1700000000000, b"k", b"v")]


def test_what_these_formats_lack_reads_as_absent():
    batch = LegacyBatch(V1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert batch.partition_leader_epoch == -1
    assert batch.delete_horizon_ms is None
    assert not (batch.has_producer_id or batch.is_transactional or batch.is_control or batch.is_compressed)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_message_inside_a_larger_buffer_is_read_where_it_lies(kind):
    batch = LegacyBatch(kind(b"before" + V1 + b"behind"), 6)
    assert batch.is_valid()
    assert batch.view() == V1
    assert batch.payload() == b"v"
    assert batch.records() == [Record(5, 1700000000000, b"k", b"v")]


def test_null_key_and_null_value():
    assert LegacyBatch(message(0, 3, None)).records() == [Record(3, -1, None, None)]
    assert LegacyBatch(message(1, 3, None)).payload() == b""
    assert LegacyBatch(message(1, 3, b"", key=b"")).records() == [Record(3, 0, b"", b"")]


def test_a_timestamp_below_minus_one_is_read_as_it_stands():
    assert LegacyBatch(message(1, 3, b"v", timestamp=-1000)).records()[0].timestamp == -1000


@pytest.mark.parametrize("batch", [V0, V1], ids=["magic 0", "magic 1"])
def test_every_changed_bit_behind_the_crc_makes_the_message_invalid(batch):
    for position in range(17, len(batch)):
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[position] ^= 1 << bit
            assert not LegacyBatch(damaged).is_valid(), f"byte {position}, bit {bit}"


def test_a_wrong_crc_is_reported_with_both_values_and_the_place():
    damaged = V0[:-1] + b"w"
    with pytest.raises(CorruptRecord, match=r"^5\.log: message at position 0 with offset 5: .* header says 0x1fecd70a$"):
        LegacyBatch(damaged).ensure_valid("5.log")


@pytest.mark.parametrize(("batch", "size"), [(V0, 17), (V0, 13), (V1, 21), (V1, 25), (V0, -1)])
def test_a_size_that_does_not_fit_is_noticed(batch, size):
    damaged = LegacyBatch(batch[:8] + struct.pack(">i", size) + batch[12:])
    assert not damaged.is_valid()
    for use in (damaged.ensure_valid, damaged.view, damaged.payload, damaged.records):
        with pytest.raises(CorruptRecord, match="size field gives"):
            use()


def test_a_buffer_too_short_for_a_message_names_position_and_bytes_left():
    with pytest.raises(CorruptRecord, match="position 3: 17 bytes are left"):
        LegacyBatch(b"abc" + V0[:17], 3)
    with pytest.raises(CorruptRecord, match="position 0: 25 bytes are left"):
        LegacyBatch(V1[:25])


def test_magic_2_is_not_a_legacy_message():
    with pytest.raises(CorruptRecord, match="magic 2, expected 0 or 1"):
        LegacyBatch(V0[:16] + b"\x02" + V0[17:])


@pytest.mark.parametrize(
    ("key_length", "value_length", "sentence"),
    [
        (3, 1, "the length of the value at position 25 lies behind the end of the message, 28"),
        (8, 1, "the key at position 18 has length 8, the message only 6 more bytes"),
        (2147483647, 1, "the key at position 18 has length 2147483647"),
        (1, 2, "the value at position 23 has length 2, the message only 1 more bytes"),
    ],
)
def test_a_key_or_value_past_the_end_of_its_message_is_invalid(key_length, value_length, sentence):
    damaged = V0[:18] + struct.pack(">i", key_length) + b"k" + struct.pack(">i", value_length) + b"v"
    with pytest.raises(InvalidRecord, match=f"message at position 0 with offset 5: {sentence}"):
        LegacyBatch(damaged).records()


# Wrappers


def test_a_wrapper_of_magic_0_holds_absolute_offsets():
    batch = LegacyBatch(V0_GZIP_14_15)
    assert batch.is_valid()
    assert batch.codec is Codec.GZIP
    assert batch.record_count is None
    assert batch.last_offset == 15
    assert batch.records() == [
        Record(14, -1, b"k0", b"user-001,/about/9918,10.138.114.223,404,54709"),
        Record(15, -1, b"k1", b"user-001,/index/9477,10.236.174.232,200,71783"),
    ]
    assert (batch.base_offset, batch.last_offset_delta) == (14, 1)


def test_lz4_of_magic_0_has_the_wrong_header_checksum_and_is_read():
    assert V0_LZ4_0[26:33] == bytes.fromhex("04224d18 60 40 1a")
    batch = LegacyBatch(V0_LZ4_0)
    assert batch.is_valid()
    assert batch.records() == [Record(0, -1, b"k0", b"user-001,/cart/8434,10.228.6.22,200,49256")]


def test_lz4_of_magic_1_with_the_wrong_header_checksum_is_refused():
    broken = compress(Codec.LZ4, message(1, 0, b"v"), magic=0)
    with pytest.raises(InvalidRecord, match="lz4"):
        LegacyBatch(message(1, 0, broken, attributes=3)).records()


def test_a_wrapper_of_magic_1_holds_relative_offsets():
    batch = LegacyBatch(V1_GZIP_22_23)
    assert batch.is_valid()
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert (batch.max_timestamp, batch.first_timestamp) == (1700000000703, -1)
    assert batch.records() == [Record(22, 1700000000678, b"key-003", None), Record(23, 1700000000703, b"key-013", None)]


@pytest.mark.parametrize(
    ("batch", "first", "timestamp", "codec"),
    [(V1_GZIP_APPEND_TIME_37_38, 37, 1794735015002, "gzip"), (V1_LZ4_APPEND_TIME_74_75, 74, 1794735015079, "lz4")],
)
def test_a_wrapper_under_log_append_time_lends_its_timestamp_to_all_messages(batch, first, timestamp, codec):
    wrapped = LegacyBatch(batch)
    assert wrapped.is_valid()
    assert wrapped.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert wrapped.first_timestamp == timestamp
    assert wrapped.records() == [
        Record(first, timestamp, b"k0", f"append time {codec} 0".encode()),
        Record(first + 1, timestamp, b"k1", f"append time {codec} 1".encode()),
    ]


def test_relative_offsets_may_have_gaps_where_compaction_was():
    inner = message(1, 0, b"a") + message(1, 3, b"b") + message(1, 7, b"c")
    assert offsets(wrapper(inner, offset=107)) == [100, 103, 107]


def test_a_wrapper_offset_of_0_leaves_the_inner_offsets_as_they_are():
    inner = message(1, 0, b"a") + message(1, 1, b"b") + message(1, 2, b"c")
    assert offsets(wrapper(inner, offset=0)) == [0, 1, 2]


def test_a_wrapper_offset_below_its_last_inner_one_is_invalid():
    inner = message(1, 0, b"a") + message(1, 2, b"b")
    with pytest.raises(InvalidRecord, match="with offset 1: the wrapper's offset is below that of its last inner message, 2"):
        wrapper(inner, offset=1).records()


def test_messages_of_magic_0_in_a_wrapper_of_magic_1_are_read_and_recognised():
    inner = message(0, 0, b"a", key=b"k") + message(0, 1, b"b", key=b"k")
    old = wrapper(inner, offset=9, timestamp=1700000000000)
    assert old.records() == [Record(8, -1, b"k", b"a"), Record(9, -1, b"k", b"b")]
    assert old.holds_older_messages()
    assert not LegacyBatch(V1_GZIP_22_23).holds_older_messages()
    assert not LegacyBatch(V1).holds_older_messages()


def test_log_append_time_does_not_give_a_timestamp_to_messages_of_magic_0():
    assert wrapper(message(0, 0, b"a"), timestamp=1700000000000, flags=0x08).records()[0].timestamp == -1


def test_a_cut_message_at_the_end_of_a_wrapper_is_left_out():
    inner = message(1, 0, b"a") + message(1, 1, b"b")
    for cut in range(1, 35):
        assert offsets(wrapper(inner[:-cut], offset=9)) == [9], f"cut by {cut} bytes"


def test_crcs_of_inner_messages_are_not_checked_when_reading():
    inner = bytearray(message(1, 0, b"a"))
    inner[12] ^= 1
    assert offsets(wrapper(bytes(inner))) == [9]


def test_a_wrapper_with_a_null_value_is_invalid():
    with pytest.raises(InvalidRecord, match="compressed with gzip has a null value"):
        LegacyBatch(message(1, 9, None, attributes=1)).records()


def test_a_wrapper_without_messages_is_invalid():
    with pytest.raises(InvalidRecord, match="0 decompressed bytes hold no inner message"):
        wrapper(b"").records()
    with pytest.raises(InvalidRecord, match="20 decompressed bytes hold no inner message"):
        wrapper(message(0, 0, b"v")[:20]).records()


def test_a_wrapper_in_a_wrapper_is_invalid():
    nested = message(1, 0, compress(Codec.GZIP, message(1, 0, b"v")), attributes=1)
    with pytest.raises(InvalidRecord, match="inner message at byte 0 is compressed itself"):
        wrapper(nested).records()


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_invalid_in_both_formats(magic):
    with pytest.raises(InvalidRecord, match=f"zstd in a message of magic {magic}"):
        wrapper(message(magic, 0, b"v"), magic=magic, codec=Codec.ZSTD).records()


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number):
    with pytest.raises(UnsupportedCompressionType, match=f"codec {number}"):
        LegacyBatch(message(1, 0, b"v", attributes=number)).records()


@pytest.mark.parametrize("magic", [2, -1])
def test_an_inner_message_of_another_magic_is_invalid(magic):
    inner = bytearray(message(1, 0, b"value"))
    inner[16] = magic & 0xFF
    with pytest.raises(InvalidRecord, match=f"inner message at byte 0: magic {magic}, expected 0 or 1"):
        wrapper(bytes(inner)).records()


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_an_inner_size_below_every_message_is_corrupt(size):
    inner = message(1, 0, b"a")
    with pytest.raises(CorruptRecord, match=f"inner message at byte 35: size field {size}"):
        wrapper(inner + inner[:8] + struct.pack(">i", size) + inner[12:]).records()


def test_an_inner_message_of_magic_1_too_small_for_its_timestamp_is_corrupt():
    inner = message(0, 0, None)
    with pytest.raises(CorruptRecord, match="the smallest of magic 1"):
        wrapper(inner[:16] + b"\x01" + inner[17:] + bytes(20)).records()


def test_a_wrapper_larger_than_the_cap_is_refused():
    bomb = wrapper(message(1, 0, bytes(1_000_000)))
    assert bomb.size < 2000
    with pytest.raises(InvalidRecord, match="65536"):
        bomb.records(max_decompressed=65536)
