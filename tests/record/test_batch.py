"""A batch of magic 2 as a view: header fields, what they imply, CRC, and which damage is noticed when."""

from __future__ import annotations

import pytest

from milepost.codec.compression import Codec, compress
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.batch import RecordBatch, TimestampType
from milepost.record.builder import pack_batch
from milepost.record.records import Record

# Two records, leader epoch 7, base offset 100: (k1, v1, 1700000000000) and (null, "hello", header h=x, 5 ms later).
WORKED = bytes.fromhex(
    "00 00 00 00 00 00 00 64 00 00 00 4c 00 00 00 07"
    "02 32 de ae 19 00 00 00 00 00 01 00 00 01 8b cf"
    "e5 68 00 00 00 01 8b cf e5 68 05 ff ff ff ff ff"
    "ff ff ff ff ff ff ff ff ff 00 00 00 02 14 00 00"
    "00 04 6b 31 04 76 31 00 1e 00 0a 02 01 0a 68 65"
    "6c 6c 6f 02 02 68 02 78"
)
# What compaction leaves of a batch with offsets 100-101, producer 4000 epoch 2, base sequence 10.
EMPTIED = bytes.fromhex(
    "00 00 00 00 00 00 00 64 00 00 00 31 00 00 00 07"
    "02 fb 47 7e 3a 00 00 00 00 00 01 ff ff ff ff ff"
    "ff ff ff 00 00 01 8b cf e5 68 05 00 00 00 00 00"
    "00 0f a0 00 02 00 00 00 0a 00 00 00 00"
)
RECORD_1 = bytes.fromhex("14 00 00 00 04 6b31 04 7631 00")
RECORD_2 = bytes.fromhex("1e 00 0a 02 01 0a 68656c6c6f 02 02 68 02 78")


def batch(payload: bytes = RECORD_1 + RECORD_2, **fields: int) -> RecordBatch:
    header = {
        "base_offset": 100,
        "partition_leader_epoch": 7,
        "attributes": 0,
        "last_offset_delta": 1,
        "base_timestamp": 1700000000000,
        "max_timestamp": 1700000000005,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": 2,
    }
    return RecordBatch(pack_batch(**(header | fields), payload=payload))


def test_header_of_the_worked_batch():
    worked = RecordBatch(WORKED)
    assert worked.base_offset == 100
    assert worked.last_offset == 101
    assert worked.next_offset == 102
    assert worked.size == 88
    assert worked.partition_leader_epoch == 7
    assert worked.magic == 2
    assert worked.crc == 853454361
    assert worked.attributes == 0
    assert worked.last_offset_delta == 1
    assert worked.base_timestamp == worked.first_timestamp == 1700000000000
    assert worked.max_timestamp == 1700000000005
    assert (worked.producer_id, worked.producer_epoch, worked.base_sequence, worked.last_sequence) == (-1, -1, -1, -1)
    assert worked.record_count == 2
    assert worked.codec is Codec.NONE
    assert worked.timestamp_type is TimestampType.CREATE_TIME
    assert worked.delete_horizon_ms is None
    assert not (worked.is_compressed or worked.is_transactional or worked.is_control or worked.has_producer_id)


def test_records_of_the_worked_batch():
    assert RecordBatch(WORKED).records() == [
        Record(100, 1700000000000, b"k1", b"v1"),
        Record(101, 1700000000005, None, b"hello", (("h", b"x"),)),
    ]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_inside_a_larger_buffer_is_read_where_it_lies(kind):
    worked = RecordBatch(kind(b"before" + WORKED + b"behind"), 6)
    worked.ensure_valid()
    assert worked.view() == WORKED
    assert worked.payload() == RECORD_1 + RECORD_2
    assert [record.offset for record in worked.records()] == [100, 101]


def test_a_buffer_too_short_for_a_header_names_position_and_bytes_left():
    with pytest.raises(CorruptRecord, match=r"position 6: 60 bytes are left, a batch header has 61"):
        RecordBatch(b"before" + WORKED[:60], 6)


def test_every_changed_bit_behind_the_crc_makes_the_batch_invalid():
    for position in range(21, len(WORKED)):
        for bit in range(8):
            damaged = bytearray(WORKED)
            damaged[position] ^= 1 << bit
            assert not RecordBatch(damaged).is_valid(), f"byte {position}, bit {bit}"


def test_base_offset_and_leader_epoch_may_change_without_a_new_crc():
    stamped = bytearray(WORKED)
    stamped[0:8] = (9000).to_bytes(8, "big")
    stamped[12:16] = (8).to_bytes(4, "big")
    moved = RecordBatch(stamped)
    assert moved.is_valid()
    assert (moved.base_offset, moved.last_offset, moved.partition_leader_epoch) == (9000, 9001, 8)


def test_a_wrong_crc_is_reported_with_both_values_and_the_place():
    damaged = bytearray(WORKED)
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecord, match=r"^00000000000000000100\.log, position 0: batch .* header says 0x32deae19$"):
        RecordBatch(damaged).ensure_valid("00000000000000000100.log, position 0")


def test_another_magic_is_not_valid():
    damaged = bytearray(WORKED)
    damaged[16] = 3
    assert not RecordBatch(damaged).is_valid()
    with pytest.raises(CorruptRecord, match="magic 3, expected 2"):
        RecordBatch(damaged).ensure_valid()


@pytest.mark.parametrize(
    ("length", "sentence"), [(48, "60 bytes in all, a batch header has 61"), (77, "89 bytes in all, 88 are there")]
)
def test_a_length_field_that_does_not_fit_is_noticed_by_everything_but_the_view_itself(length, sentence):
    damaged = bytearray(WORKED)
    damaged[8:12] = length.to_bytes(4, "big")
    view = RecordBatch(damaged)
    assert not view.is_valid()
    for use in (view.ensure_valid, view.view, view.payload, view.records):
        with pytest.raises(CorruptRecord, match=sentence):
            use()


@pytest.mark.parametrize(
    ("attributes", "codec"),
    [(0, Codec.NONE), (1, Codec.GZIP), (2, Codec.SNAPPY), (3, Codec.LZ4), (4, Codec.ZSTD), (0x3C, Codec.ZSTD)],
)
def test_the_low_three_bits_name_the_codec(attributes, codec):
    view = batch(attributes=attributes)
    assert view.codec is codec
    assert view.is_compressed == (codec is not Codec.NONE)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number):
    view = batch(attributes=number)
    assert view.is_valid()
    with pytest.raises(UnsupportedCompressionType, match=f"codec {number}"):
        _ = view.codec
    with pytest.raises(
        UnsupportedCompressionType, match=f"some.log: batch at position 0 with base offset 100: compression codec {number}"
    ):
        view.records(where="some.log")


def test_each_flag_has_its_own_bit():
    assert batch(attributes=0x10).is_transactional
    assert batch(attributes=0x20).is_control
    assert batch(attributes=0x08).timestamp_type is TimestampType.LOG_APPEND_TIME
    horizon = batch(attributes=0x40)
    assert horizon.delete_horizon_ms == 1700000000000
    assert not (horizon.is_transactional or horizon.is_control or horizon.is_compressed)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(0, 2, 2), (2147483646, 1, 2147483647), (2147483646, 2, 0), (-1, 2, -1)],
)
def test_last_sequence_wraps(base_sequence, last_offset_delta, last_sequence):
    view = batch(producer_id=4000, producer_epoch=2, base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert view.last_sequence == last_sequence
    assert view.has_producer_id


def test_records_of_a_batch_of_three_wrap_their_sequences():
    third = bytes.fromhex("0c 00 00 04 01 01 00")
    view = batch(
        RECORD_1 + RECORD_2 + third,
        record_count=3,
        last_offset_delta=2,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2147483646,
    )
    assert [record.sequence for record in view.records()] == [2147483646, 2147483647, 0]


def test_under_log_append_time_every_record_has_the_maximum_timestamp():
    view = batch(attributes=0x08, max_timestamp=1800000000000)
    assert [record.timestamp for record in view.records()] == [1800000000000, 1800000000000]
    assert view.first_timestamp == 1800000000000


def test_a_delete_horizon_stands_in_for_the_base_timestamp_and_records_keep_theirs():
    tombstone = bytes.fromhex("16 00 ff ef b2 52 00 04 6b 31 01 00")
    view = batch(tombstone, attributes=0x40, base_timestamp=1700086400000, record_count=1, last_offset_delta=0)
    assert view.delete_horizon_ms == 1700086400000
    assert view.first_timestamp == -1
    assert view.records() == [Record(100, 1700000000000, b"k1", None)]


def test_timestamps_that_need_65_bits_apart_wrap_as_in_64_bit_arithmetic():
    # base 2^63-1 and delta 1: the sum in 64 bits is -2^63.
    record = bytes.fromhex("0c 00 02 00 01 01 00")
    view = batch(record, base_timestamp=2**63 - 1, record_count=1, last_offset_delta=0)
    assert view.records()[0].timestamp == -(2**63)


def test_an_emptied_batch_has_its_offsets_and_sequences_but_no_records():
    view = RecordBatch(EMPTIED)
    view.ensure_valid()
    assert (view.base_offset, view.last_offset, view.size, view.record_count) == (100, 101, 61, 0)
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.last_sequence) == (4000, 2, 10, 11)
    assert (view.first_timestamp, view.max_timestamp) == (-1, 1700000000005)
    assert view.records() == []


def test_a_count_of_zero_does_not_touch_the_payload():
    assert batch(b"not gzip at all", attributes=1, record_count=0).records() == []


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_gives_the_same_records(codec):
    view = batch(compress(codec, RECORD_1 + RECORD_2), attributes=int(codec))
    assert [record.value for record in view.records()] == [b"v1", b"hello"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(
    ("section", "count"),
    [
        pytest.param(RECORD_1 + RECORD_2, 3, id="one record less than the count"),
        pytest.param(RECORD_1 + RECORD_2, 1, id="one record more than the count"),
        pytest.param(RECORD_1 + RECORD_2, -1, id="negative count"),
        pytest.param(RECORD_1 + RECORD_2, 2147483647, id="count that no memory holds"),
        pytest.param(RECORD_1 + RECORD_2[:-1], 2, id="last byte missing"),
        pytest.param(RECORD_1 + RECORD_2 + b"\x00", 2, id="one byte left over"),
        pytest.param(b"\x7e" + RECORD_1[1:] + RECORD_2, 2, id="length larger than the data"),
        pytest.param(b"\x16" + RECORD_1[1:] + RECORD_2, 2, id="length one too large"),
        pytest.param(b"\x12" + RECORD_1[1:] + RECORD_2, 2, id="length one too small"),
        pytest.param(b"", 1, id="no data at all"),
    ],
)
def test_records_that_do_not_fill_the_batch_exactly_are_refused(codec, section, count):
    view = batch(compress(codec, section), attributes=int(codec), record_count=count)
    view.ensure_valid()
    with pytest.raises(InvalidRecord, match=r"^batch at position 0 with base offset 100: "):
        view.records()


def test_a_compressed_stream_larger_than_the_cap_is_refused():
    view = batch(compress(Codec.ZSTD, bytes(1_000_000)), attributes=4)
    assert view.size < 200
    with pytest.raises(InvalidRecord, match="65536"):
        view.records(max_decompressed=65536)


def test_a_damaged_stream_is_refused_without_its_records():
    stream = bytearray(compress(Codec.GZIP, RECORD_1 + RECORD_2))
    stream[-8] ^= 1  # in the checksum of the content
    with pytest.raises(InvalidRecord, match="gzip"):
        batch(bytes(stream), attributes=1).records()
