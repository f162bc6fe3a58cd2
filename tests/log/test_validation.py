"""What a leader checks in a batch, and what it changes in it."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptRecord, InvalidRecord, RecordValidation, UnsupportedForMessageFormat
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.batch import TimestampType
from milepost.record.builder import build_batch
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.log.making import NOW, log_in, produced

CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
every_codec = pytest.mark.parametrize("codec", list(Codec), ids=[codec.name.lower() for codec in Codec])


def with_header(data, **fields):
    """The batch with header fields changed and the CRC put right."""
    places = {
        "attributes": (21, 23),
        "last_offset_delta": (23, 27),
        "base_timestamp": (27, 35),
        "max_timestamp": (35, 43),
        "producer_id": (43, 51),
        "base_sequence": (53, 57),
        "record_count": (57, 61),
    }
    changed = bytearray(data)
    for name, value in fields.items():
        start, end = places[name]
        changed[start:end] = value.to_bytes(end - start, "big", signed=True)
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def stored(tmp_path, data, **config):
    """What the log keeps of a batch that is appended behind three records, under leader epoch 4; and the answer."""
    log = log_in(tmp_path, **config)
    log.append_as_leader(produced(3))
    info = log.append_as_leader(data, leader_epoch=4)
    [batch] = log.read(3, isolation="log end").batches
    batch.ensure_valid()
    return batch, info


def times(batch):
    return [record.timestamp for record in batch.records()]


# The shape of the set.


def test_more_than_one_batch_is_refused(tmp_path):
    with pytest.raises(InvalidRecord, match="2 batches in one append; a producer sends exactly one") as refused:
        log_in(tmp_path).append_as_leader(produced() + produced())
    assert refused.value.code == 87


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_formats_are_refused_and_not_converted(tmp_path, magic, codec):
    data = build_legacy([Record(place, NOW, b"k", b"v") for place in range(3)], magic=magic, codec=codec)
    with pytest.raises(UnsupportedForMessageFormat, match=f"magic {magic}; this log takes magic 2 only") as refused:
        log_in(tmp_path).append_as_leader(data)
    assert refused.value.code == 43


@pytest.mark.parametrize(("last_offset_delta", "record_count"), [(2, 2), (1, 3), (-1, 3), (0, 0), (-1, 0), (2, -1), (6, 0)])
def test_offsets_and_count_that_do_not_fit_each_other_are_refused(tmp_path, last_offset_delta, record_count):
    data = with_header(produced(3), last_offset_delta=last_offset_delta, record_count=record_count)
    with pytest.raises(InvalidRecord, match=f"last offset delta {last_offset_delta} and {record_count} records"):
        log_in(tmp_path).append_as_leader(data)


@pytest.mark.parametrize("target", CODECS)
@every_codec
def test_header_without_records_is_refused(tmp_path, codec, target):
    data = with_header(produced(1, codec=codec), last_offset_delta=5, record_count=0)
    with pytest.raises(InvalidRecord):
        log_in(tmp_path, compression_type=target).append_as_leader(data)


@every_codec
@pytest.mark.parametrize("count", [2, 4], ids=["one too few", "one too many"])
def test_count_that_the_records_do_not_fit_is_refused(tmp_path, codec, count):
    data = with_header(produced(3, codec=codec), last_offset_delta=count - 1, record_count=count)
    with pytest.raises(InvalidRecord):
        log_in(tmp_path).append_as_leader(data)


def test_producer_without_a_sequence_is_refused(tmp_path):
    with pytest.raises(InvalidRecord, match="producer 7 sent base sequence -1; sequences start at 0"):
        log_in(tmp_path).append_as_leader(with_header(produced(), producer_id=7))


def test_compressed_bytes_that_do_not_decompress_are_refused(tmp_path):
    data = bytearray(produced(3, codec=Codec.GZIP))
    data[-6] ^= 0xFF
    with pytest.raises((InvalidRecord, CorruptRecord)):
        log_in(tmp_path).append_as_leader(with_header(bytes(data)))


def test_coordinator_may_write_what_a_client_may_not(tmp_path):
    log = log_in(tmp_path)
    data = with_header(produced(), producer_id=7)
    assert log.append_as_leader(data, origin=AppendOrigin.COORDINATOR).first_offset == 0


# Keys.


@every_codec
def test_record_without_key_is_refused_on_a_compacted_topic(tmp_path, codec):
    data = build_batch([Record(place, NOW, None if place in (1, 3) else b"k", b"v") for place in range(5)], codec=codec)
    with pytest.raises(RecordValidation, match="2 of 5 records were refused; record 1:") as refused:
        log_in(tmp_path, cleanup_policy=("compact",)).append_as_leader(data)
    assert refused.value.code == 87
    assert [index for index, _ in refused.value.record_errors] == [1, 3]


def test_record_without_key_is_fine_elsewhere(tmp_path):
    assert log_in(tmp_path).append_as_leader(produced(3, key=None)).last_offset == 2


def test_refused_batch_leaves_the_log_as_it_was(tmp_path):
    log = log_in(tmp_path, cleanup_policy=("compact",))
    with pytest.raises(RecordValidation):
        log.append_as_leader(produced(3, key=None))
    assert (log.end_offset, log.segments.active.size) == (0, 0)


# Timestamps.


@every_codec
@pytest.mark.parametrize(
    ("timestamp", "fits"), [(NOW - 1000, True), (NOW - 1001, False), (NOW + 500, True), (NOW + 501, False), (-1, True)]
)
def test_create_time_outside_the_topics_bounds_is_refused(tmp_path, codec, timestamp, fits):
    log = log_in(tmp_path, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    if fits:
        assert log.append_as_leader(produced(3, timestamp=timestamp, codec=codec)).last_offset == 2
    else:
        with pytest.raises(RecordValidation, match="3 of 3 records were refused") as refused:
            log.append_as_leader(produced(3, timestamp=timestamp, codec=codec))
        assert refused.value.code == 32
        assert len(refused.value.record_errors) == 3


def test_every_record_outside_the_bounds_is_named(tmp_path):
    old, fine = NOW - 5000, NOW
    data = build_batch([Record(place, old if place % 2 else fine, b"k", b"v") for place in range(12)])
    with pytest.raises(RecordValidation, match="6 of 12 records") as refused:
        log_in(tmp_path, message_timestamp_before_max_ms=1000).append_as_leader(data)
    assert [index for index, _ in refused.value.record_errors] == [1, 3, 5, 7, 9, 11]
    assert "5000 ms old; message.timestamp.before.max.ms is 1000" in refused.value.record_errors[0][1]


def test_time_error_outweighs_a_missing_key_in_the_code_of_the_answer(tmp_path):
    data = build_batch([Record(0, NOW, None, b"v"), Record(1, NOW - 5000, b"k", b"v")])
    with pytest.raises(RecordValidation) as refused:
        log_in(tmp_path, cleanup_policy=("compact",), message_timestamp_before_max_ms=1000).append_as_leader(data)
    assert refused.value.code == 32
    assert [index for index, _ in refused.value.record_errors] == [0, 1]


@pytest.mark.parametrize("timestamp", [-1, -2, -1000])
def test_negative_timestamps_are_accepted_and_the_batch_has_no_newest(tmp_path, timestamp):
    batch, info = stored(tmp_path, with_header(produced(), base_timestamp=timestamp, max_timestamp=timestamp))
    assert (info.max_timestamp, batch.max_timestamp) == (-1, -1)
    assert times(batch) == [timestamp]


def test_far_future_is_accepted_without_a_bound(tmp_path):
    batch, _ = stored(tmp_path, produced(timestamp=253_402_300_799_000))
    assert batch.max_timestamp == 253_402_300_799_000


@every_codec
def test_wrong_newest_timestamp_in_the_header_is_put_right(tmp_path, codec):
    data = with_header(produced(3, timestamp=NOW, codec=codec), max_timestamp=NOW + 1_000_000)
    batch, info = stored(tmp_path, data)
    assert (info.max_timestamp, batch.max_timestamp) == (NOW, NOW)


def test_newest_timestamp_is_told_with_the_last_offset_of_its_batch(tmp_path):
    data = build_batch([Record(0, NOW, b"k", b""), Record(1, NOW + 9, b"k", b""), Record(2, NOW + 5, b"k", b"")])
    _, info = stored(tmp_path, data)
    assert (info.max_timestamp, info.offset_of_max_timestamp) == (NOW + 9, 5)


@pytest.mark.parametrize(("codec", "offset"), [(Codec.NONE, 4), (Codec.GZIP, 5)])
def test_newest_timestamp_is_told_with_its_own_offset_in_the_old_profile_unless_compressed(tmp_path, codec, offset):
    records = [Record(0, NOW, b"k", b""), Record(1, NOW + 9, b"k", b""), Record(2, NOW + 5, b"k", b"")]
    _, info = stored(tmp_path, build_batch(records, codec=codec), index_profile="per-append")
    assert (info.max_timestamp, info.offset_of_max_timestamp) == (NOW + 9, offset)


@every_codec
def test_log_append_time_stamps_the_batch_and_keeps_its_bytes(tmp_path, codec):
    data = produced(3, timestamp=1234, codec=codec)
    batch, info = stored(
        tmp_path, data, message_timestamp_type="LogAppendTime", clock=ManualClock(NOW + 77), message_timestamp_before_max_ms=10
    )
    assert (info.log_append_time, info.max_timestamp, info.offset_of_max_timestamp) == (NOW + 77, NOW + 77, 5)
    assert (batch.timestamp_type, batch.base_timestamp, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 1234, NOW + 77)
    assert times(batch) == [NOW + 77] * 3
    assert bytes(batch.view())[61:] == data[61:]


def test_log_append_time_is_not_the_producers_to_claim(tmp_path):
    data = with_header(produced(3), attributes=0x08)
    with pytest.raises(RecordValidation, match="which only the broker may do") as refused:
        log_in(tmp_path, message_timestamp_type="LogAppendTime").append_as_leader(data)
    assert refused.value.code == 32


def test_claimed_log_append_time_without_timestamps_is_refused_also_under_create_time(tmp_path):
    data = with_header(produced(3, timestamp=-1), attributes=0x08, max_timestamp=-1)
    with pytest.raises(RecordValidation, match="which only the broker may do"):
        log_in(tmp_path).append_as_leader(data)


def test_claimed_log_append_time_with_timestamps_is_taken_off_under_create_time(tmp_path):
    records = [Record(0, NOW, b"k", b""), Record(1, NOW + 9, b"k", b"")]
    data = with_header(build_batch(records), attributes=0x08)
    batch, _ = stored(tmp_path, data)
    assert batch.timestamp_type == TimestampType.CREATE_TIME
    assert times(batch) == [NOW, NOW + 9]


# Codecs.


@pytest.mark.parametrize("target", CODECS)
@every_codec
def test_topics_codec_is_what_is_stored_and_the_records_stay_the_same(tmp_path, codec, target):
    records = [Record(place, NOW + place, b"k%d" % place, b"v" * place, (("h", b"x"),)) for place in range(20)]
    data = build_batch(records, codec=codec, producer_id=1324, producer_epoch=10, base_sequence=984, is_transactional=True)
    batch, info = stored(tmp_path, data, compression_type=target)
    assert batch.codec.name.lower() == ("none" if target == "uncompressed" else target)
    assert (info.first_offset, info.last_offset, info.offset_of_max_timestamp) == (3, 22, 22)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.max_timestamp) == (3, 4, NOW + 19)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (1324, 10, 984, True)
    kept = [(record.offset - 3, record.timestamp, record.key, record.value, record.headers) for record in batch.records()]
    assert kept == [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in records]


@every_codec
def test_producers_codec_is_kept_with_its_very_bytes(tmp_path, codec):
    data = produced(20, codec=codec)
    batch, _ = stored(tmp_path, data)
    assert bytes(batch.view())[16:] == data[16:]


@every_codec
def test_same_codec_on_the_topic_keeps_the_very_bytes(tmp_path, codec):
    data = produced(20, codec=codec)
    target = "uncompressed" if codec is Codec.NONE else codec.name.lower()
    batch, _ = stored(tmp_path, data, compression_type=target)
    assert bytes(batch.view())[16:] == data[16:]


def test_recompression_under_log_append_time_stamps_the_new_batch(tmp_path):
    data = produced(3, timestamp=1234)
    batch, info = stored(tmp_path, data, compression_type="gzip", message_timestamp_type="LogAppendTime", clock=ManualClock(NOW))
    assert (batch.codec, batch.timestamp_type) == (Codec.GZIP, TimestampType.LOG_APPEND_TIME)
    assert times(batch) == [NOW] * 3
    assert info.log_append_time == NOW


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_records_with_odd_offsets_are_numbered_anew(tmp_path, codec):
    inner = build_batch([Record(0, NOW, b"a", b""), Record(5, NOW, b"b", b""), Record(9, NOW, b"c", b"")], codec=codec)
    data = with_header(inner, last_offset_delta=2)
    batch, info = stored(tmp_path, data)
    assert [(record.offset, record.key) for record in batch.records()] == [(3, b"a"), (4, b"b"), (5, b"c")]
    assert info.last_offset == 5


def test_all_inner_offsets_zero_is_refused(tmp_path):
    one = bytearray(build_batch([Record(0, NOW, b"k", b"")]))[61:]
    header = produced(20)[:61]
    data = bytearray(header + bytes(one) * 20)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidRecord, match="last offset delta 0 and 20 records"):
        log_in(tmp_path).append_as_leader(with_header(bytes(data), last_offset_delta=0))
