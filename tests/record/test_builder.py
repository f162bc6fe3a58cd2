"""Making batches: byte for byte as the worked ones, what is refused, and what compaction leaves of a batch."""

from __future__ import annotations

import pytest

from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument
from milepost.record.batch import RecordBatch, TimestampType
from milepost.record.builder import BatchBuilder, build_batch, empty_batch, rewrite_batch
from milepost.record.records import Record

T = 1700000000000
TWO_RECORDS = [Record(100, T, b"k1", b"v1"), Record(101, T + 5, None, b"hello", (("h", b"x"),))]
WORKED = bytes.fromhex(
    "00 00 00 00 00 00 00 64 00 00 00 4c 00 00 00 07"
    "02 32 de ae 19 00 00 00 00 00 01 00 00 01 8b cf"
    "e5 68 00 00 00 01 8b cf e5 68 05 ff ff ff ff ff"
    "ff ff ff ff ff ff ff ff ff 00 00 00 02 14 00 00"
    "00 04 6b 31 04 76 31 00 1e 00 0a 02 01 0a 68 65"
    "6c 6c 6f 02 02 68 02 78"
)
EMPTIED = bytes.fromhex(
    "00 00 00 00 00 00 00 64 00 00 00 31 00 00 00 07"
    "02 fb 47 7e 3a 00 00 00 00 00 01 ff ff ff ff ff"
    "ff ff ff 00 00 01 8b cf e5 68 05 00 00 00 00 00"
    "00 0f a0 00 02 00 00 00 0a 00 00 00 00"
)


def built(records, **options) -> RecordBatch:
    batch = RecordBatch(build_batch(records, **options))
    batch.ensure_valid()
    return batch


def test_the_worked_batch_is_built_byte_for_byte():
    assert build_batch(TWO_RECORDS, partition_leader_epoch=7) == WORKED


def test_an_iterator_of_records_will_do():
    assert build_batch(iter(TWO_RECORDS), partition_leader_epoch=7) == WORKED


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_batch_has_the_same_header_and_records(codec):
    batch = built(TWO_RECORDS, codec=codec)
    assert batch.codec is codec
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 101, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (T, T + 5)
    assert batch.records() == TWO_RECORDS


def test_a_level_reaches_the_codec():
    records = [Record(0, 0, None, bytes(range(256)) * 40)]
    assert built(records, codec=Codec.GZIP, level=9).records() == records
    with pytest.raises(InvalidArgument, match="level 99"):
        build_batch(records, codec=Codec.GZIP, level=99)


def test_records_keep_their_offsets_with_gaps_before_between_and_behind():
    batch = built([Record(103, 1, b"a", b""), Record(107, 2, b"b", b"")], base_offset=100, last_offset=109)
    assert (batch.base_offset, batch.last_offset_delta, batch.last_offset, batch.record_count) == (100, 9, 109, 2)
    assert [record.offset for record in batch.records()] == [103, 107]


def test_base_timestamp_is_the_first_and_max_timestamp_the_largest():
    batch = built([Record(0, 50, b"", b""), Record(1, 70, b"", b""), Record(2, 60, b"", b"")])
    assert (batch.base_timestamp, batch.max_timestamp) == (50, 70)
    assert [record.timestamp for record in batch.records()] == [50, 70, 60]


def test_records_without_timestamp_give_a_batch_without():
    batch = built([Record(0, -1, b"", b""), Record(1, -1, b"", b"")])
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, -1)


def test_under_log_append_time_the_maximum_is_the_time_of_the_append():
    batch = built(TWO_RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=T + 900)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (batch.base_timestamp, batch.max_timestamp) == (T, T + 900)
    assert [record.timestamp for record in batch.records()] == [T + 900, T + 900]


def test_producer_and_flags_are_written():
    batch = built(TWO_RECORDS, producer_id=4000, producer_epoch=2, base_sequence=2147483647, is_transactional=True)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (4000, 2, 2147483647, 0)
    assert batch.attributes == 0x10
    assert [record.sequence for record in batch.records()] == [2147483647, 0]


def test_a_base_sequence_without_producer_is_written_as_offset_commits_have_it():
    batch = built(TWO_RECORDS, base_sequence=0)
    assert (batch.producer_id, batch.base_sequence) == (-1, 0)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp():
    batch = build_batch([Record(100, T, b"k1", None)], delete_horizon_ms=T + 86400000)
    assert batch[21:23].hex() == "0040"
    assert batch[27:35].hex() == "0000018bd50bc400"
    assert batch[61:].hex(" ") == "16 00 ff ef b2 52 00 04 6b 31 01 00"
    assert RecordBatch(batch).max_timestamp == T


@pytest.mark.parametrize(
    ("records", "options", "sentence"),
    [
        ([], {}, "needs a record"),
        ([Record(5, 0, b"", b""), Record(5, 0, b"", b"")], {}, "offset 5 is not above the previous record's, 5"),
        ([Record(5, 0, b"", b""), Record(4, 0, b"", b"")], {}, "offset 4 is not above the previous record's, 5"),
        ([Record(5, 0, b"", b"")], {"base_offset": 6}, "offset 5 is not within 0..2147483647 of the batch's base offset 6"),
        ([Record(2147483648, 0, b"", b"")], {"base_offset": 0}, "offset 2147483648 is not within"),
        ([Record(5, 0, b"", b"")], {"base_offset": -1}, "base offset -1 is negative"),
        ([Record(-5, 0, b"", b"")], {}, "offset -5"),
        ([Record(5, 0, b"", b"")], {"last_offset": 4}, "last offset 4 is below the last record's, 5"),
        ([Record(5, -2, b"", b"")], {}, "timestamp -2 of the record at offset 5 is negative"),
        ([Record(5, 2**63, b"", b"")], {}, "does not fit its field"),
        (TWO_RECORDS, {"is_transactional": True}, "a transactional batch needs a producer id"),
        (TWO_RECORDS, {"producer_id": 7}, "producer id 7 with epoch -1"),
        (TWO_RECORDS, {"producer_id": 7, "producer_epoch": 0}, "producer id 7 with base sequence -1"),
        (TWO_RECORDS, {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0}, "producer id -2"),
        (TWO_RECORDS, {"producer_id": 7, "producer_epoch": 32768, "base_sequence": 0}, "does not fit its field"),
        (TWO_RECORDS, {"timestamp_type": TimestampType.LOG_APPEND_TIME}, "needs the time of the append, not -1"),
        (TWO_RECORDS, {"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "magic 2 has timestamps"),
        (TWO_RECORDS, {"delete_horizon_ms": -1}, "delete horizon -1 is negative"),
        (TWO_RECORDS, {"is_control": True, "codec": Codec.GZIP}, "a control batch is never compressed"),
    ],
)
def test_what_no_producer_should_send_is_refused(records, options, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        build_batch(records, **options)


# Record by record


def test_records_appended_one_by_one_give_the_worked_batch():
    builder = BatchBuilder(partition_leader_epoch=7)
    for record in TWO_RECORDS:
        builder.append(record)
    assert builder.record_count == 2
    assert builder.estimated_size == 88
    assert builder.build() == WORKED


def test_room_ends_where_the_upper_bound_of_the_next_record_would_pass_the_limit():
    # 61 for the header, 11 for the first record, and for the second at most 21 + 1 (null key) + 4 (value) + 1 (no headers).
    second = Record(101, T, None, b"123", ())
    for limit, fits in ((98, False), (99, True)):
        builder = BatchBuilder(size_limit=limit)
        builder.append(TWO_RECORDS[0])
        assert builder.has_room_for(second) is fits


def test_the_first_record_always_has_room():
    builder = BatchBuilder(size_limit=62)
    large = Record(0, 0, None, bytes(1000))
    assert builder.has_room_for(large)
    builder.append(large)
    assert not builder.has_room_for(Record(1, 0, None, None))


def test_without_a_limit_there_is_always_room():
    builder = BatchBuilder()
    builder.append(Record(0, 0, None, bytes(1000)))
    assert builder.has_room_for(Record(1, 0, None, bytes(1_000_000)))


def test_a_builder_that_has_built_refuses_every_use():
    builder = BatchBuilder()
    builder.append(TWO_RECORDS[0])
    builder.build()
    assert not builder.has_room_for(TWO_RECORDS[1])
    for use in (lambda: builder.append(TWO_RECORDS[1]), builder.build):
        with pytest.raises(InvalidArgument, match="make a new one"):
            use()


def test_a_refused_record_leaves_the_builder_usable():
    builder = BatchBuilder(partition_leader_epoch=7)
    with pytest.raises(InvalidArgument):
        builder.append(Record(50, -2, b"", b""))
    builder.append(TWO_RECORDS[0])
    with pytest.raises(InvalidArgument):
        builder.append(Record(101, T, b"", b"", (("\ud800", b""),)))
    builder.append(TWO_RECORDS[1])
    assert builder.build() == WORKED


# Compaction


def producer_batch(codec: Codec = Codec.NONE, **options) -> RecordBatch:
    records = [Record(100 + i, T + i, b"k%d" % i, b"v%d" % i) for i in range(4)]
    return built(
        records,
        codec=codec,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=10,
        partition_leader_epoch=7,
        is_transactional=True,
        **options,
    )


def test_an_emptied_batch_is_these_61_bytes():
    batch = built(TWO_RECORDS, partition_leader_epoch=7, producer_id=4000, producer_epoch=2, base_sequence=10)
    assert empty_batch(batch) == EMPTIED


def test_an_emptied_batch_loses_codec_and_horizon_and_keeps_the_other_flags():
    batch = built(
        TWO_RECORDS,
        partition_leader_epoch=7,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=10,
        codec=Codec.ZSTD,
        is_transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=T + 5,
        delete_horizon_ms=T + 99,
    )
    assert batch.attributes == 0x5C
    emptied = RecordBatch(empty_batch(batch))
    emptied.ensure_valid()
    assert emptied.attributes == 0x18
    assert (emptied.base_timestamp, emptied.max_timestamp, emptied.size) == (-1, T + 5, 61)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_rewritten_batch_keeps_its_place_even_without_its_first_and_last_record(codec):
    batch = producer_batch(codec)
    kept = batch.records()[1:3]
    rewritten = RecordBatch(rewrite_batch(batch, kept, delete_horizon_ms=None))
    rewritten.ensure_valid()
    assert (rewritten.base_offset, rewritten.last_offset, rewritten.record_count) == (100, 103, 2)
    assert (rewritten.base_sequence, rewritten.last_sequence) == (10, 13)
    assert (rewritten.producer_id, rewritten.producer_epoch, rewritten.partition_leader_epoch) == (4000, 2, 7)
    assert rewritten.attributes == batch.attributes
    assert (rewritten.base_timestamp, rewritten.max_timestamp) == (T + 1, T + 2)
    assert rewritten.records() == kept
    assert [record.sequence for record in rewritten.records()] == [11, 12]


def test_a_rewrite_that_drops_nothing_and_sets_no_horizon_changes_no_byte():
    batch = RecordBatch(WORKED)
    assert rewrite_batch(batch, batch.records(), delete_horizon_ms=None) == WORKED


def test_a_rewrite_with_a_horizon_moves_the_deltas_and_not_the_timestamps():
    batch = built([Record(100, T, b"k1", None)], partition_leader_epoch=7)
    rewritten = rewrite_batch(batch, batch.records(), delete_horizon_ms=T + 86400000)
    assert rewritten[21:23].hex() == "0040"
    assert rewritten[27:35].hex() == "0000018bd50bc400"
    assert rewritten[61:].hex(" ") == "16 00 ff ef b2 52 00 04 6b 31 01 00"
    assert RecordBatch(rewritten).delete_horizon_ms == T + 86400000
    assert RecordBatch(rewritten).records() == batch.records()


def test_a_later_rewrite_keeps_the_horizon_that_is_there():
    batch = producer_batch(delete_horizon_ms=T + 99)
    rewritten = RecordBatch(rewrite_batch(batch, batch.records()[:1], delete_horizon_ms=None))
    assert rewritten.delete_horizon_ms == T + 99
    assert rewritten.records() == batch.records()[:1]


def test_a_rewrite_under_log_append_time_keeps_the_maximum():
    batch = producer_batch(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=T + 900)
    rewritten = RecordBatch(rewrite_batch(batch, batch.records()[:1], delete_horizon_ms=None))
    assert (rewritten.base_timestamp, rewritten.max_timestamp) == (T + 900, T + 900)
    assert rewritten.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_a_rewrite_keeps_timestamps_that_the_builder_would_refuse():
    # Timestamps -1000 and -2 (brokers take them), base -1000, batch maximum -1.
    original = RecordBatch(
        bytes.fromhex(
            "0000000000000000 00000042 00000000 02 00000000 0000 00000001 fffffffffffffc18 ffffffffffffffff"
            "ffffffffffffffff ffff ffffffff 00000002 0e 00 00 00 02 61 01 00 10 00 cc0f 02 02 62 01 00"
        )
    )
    assert [record.timestamp for record in original.records()] == [-1000, -2]
    rewritten = RecordBatch(rewrite_batch(original, original.records()[1:], delete_horizon_ms=None))
    assert (rewritten.base_timestamp, rewritten.max_timestamp) == (-2, -1)
    assert rewritten.records() == [Record(1, -2, b"b", None)]


def test_timestamps_that_need_65_bits_apart_survive_a_rewrite():
    batch = built([Record(0, 2**63 - 1, b"k", None)])
    rewritten = RecordBatch(rewrite_batch(batch, [Record(0, -(2**63), b"k", None)], delete_horizon_ms=2**63 - 1))
    assert rewritten.records()[0].timestamp == -(2**63)


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        ([], "no record is kept; use empty_batch"),
        ([Record(99, 0, b"", b"")], "kept offset 99 is not within 100..103"),
        ([Record(104, 0, b"", b"")], "kept offset 104 is not within 100..103"),
        ([Record(102, 0, b"", b""), Record(102, 0, b"", b"")], "kept offset 102 is not within 103..103"),
    ],
)
def test_a_rewrite_takes_only_records_of_the_batch_in_order(kept, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        rewrite_batch(producer_batch(), kept, delete_horizon_ms=None)
