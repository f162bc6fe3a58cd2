"""Which records survive a cleaning, by their keys, values, formats and producers, and what is left of their batches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.log.log import Log
from milepost.record.batch import HEADER_SIZE, TimestampType
from milepost.record.builder import build_batch, build_legacy
from milepost.record.records import Record
from tests.log.cleaning.cleaned_logs import (
    DAY,
    NOW,
    as_bytes,
    batch_spans,
    clean,
    compacted_log,
    contents,
    newest_values,
    put,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(tmp_path, clock):
    with compacted_log(tmp_path, clock=clock) as opened:
        yield opened


# Keys.


def test_only_the_newest_record_of_each_key_survives(log):
    for number in range(30):
        put(log, (number % 4, f"v{number}"))
    log.roll()
    stats = clean(log)
    assert contents(log) == {26: ("2", "v26"), 27: ("3", "v27"), 28: ("0", "v28"), 29: ("1", "v29")}
    assert (stats.end_offset, stats.keys, stats.filter.records_read, stats.filter.records_kept) == (30, 4, 30, 4)
    assert (log.start_offset, log.end_offset) == (0, 30)


def test_batch_that_loses_some_records_keeps_its_offsets_and_gets_gaps(log):
    put(log, ("a", 1), ("b", 1), ("c", 1), ("d", 1))
    put(log, ("a", 2), ("d", 2), ("x", 1))
    log.roll()
    clean(log)
    assert batch_spans(log) == [(0, 3, 2), (4, 6, 3)]
    assert contents(log) == {1: ("b", "1"), 2: ("c", "1"), 4: ("a", "2"), 5: ("d", "2"), 6: ("x", "1")}


def test_records_in_the_active_segment_are_not_touched_and_do_not_count(log):
    put(log, ("a", 1))
    put(log, ("b", 1))
    log.roll()
    put(log, ("a", 2))
    clean(log)
    assert contents(log) == {0: ("a", "1"), 1: ("b", "1"), 2: ("a", "2")}


def test_record_without_a_key_is_dropped_and_counted(log):
    # A leader refuses them by now; a log may hold them from before its policy was changed.
    log.append_as_follower(build_batch([Record(0, NOW, None, b"lost"), Record(1, NOW, b"a", b"1")]))
    log.append_as_follower(build_batch([Record(2, NOW, None, b"lost")]))
    log.roll()
    log.append_as_follower(build_batch([Record(3, NOW, None, b"not yet")]))
    log.update_high_watermark(log.end_offset)
    stats = clean(log)
    assert contents(log) == {1: ("a", "1"), 3: (None, "not yet")}
    assert stats.filter.records_without_key == 2


def test_empty_key_is_a_key_and_empty_value_is_a_value(log):
    put(log, ("", "old"), ("", ""))
    put(log, ("b", 1))
    log.roll()
    clean(log)
    assert contents(log) == {1: ("", ""), 2: ("b", "1")}


def test_headers_and_timestamps_survive_a_rewrite(log):
    headers = (("h", b"x"), ("none", None), ("h", b"y"))
    records = [Record(0, NOW - 500, b"a", b"1"), Record(1, NOW - 900, b"b", b"1", headers), Record(2, NOW - 100, b"a", b"2")]
    log.append(build_batch(records))
    log.roll()
    clean(log)
    (batch,) = [batch for _, batch in log.segments.first.log.batches()]
    assert [(record.timestamp, record.headers) for record in batch.records()] == [(NOW - 900, headers), (NOW - 100, ())]
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW - 900, NOW - 100)


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_keep_their_codec(tmp_path, clock, codec):
    with compacted_log(tmp_path, clock=clock) as log:
        put(log, ("a", "x" * 300), ("b", "y" * 300), codec=codec)
        put(log, ("a", 2), codec=codec)
        log.roll()
        clean(log)
        assert contents(log) == {1: ("b", "y" * 300), 2: ("a", "2")}
        assert [batch.codec for _, batch in log.segments.first.log.batches()] == [codec, codec]


def test_batch_under_log_append_time_keeps_its_time(tmp_path, clock):
    with compacted_log(tmp_path, {"message.timestamp.type": "LogAppendTime"}, clock=clock) as log:
        put(log, ("a", 1), ("b", 1), timestamp=NOW - 5000)
        clock.advance(1000)
        put(log, ("a", 2), timestamp=NOW - 5000)
        log.roll()
        clean(log)
        batch = next(batch for _, batch in log.segments.first.log.batches())
        assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW)
        assert [(record.offset, record.timestamp) for record in batch.records()] == [(1, NOW)]


def test_producer_fields_and_leader_epoch_survive_a_rewrite(log):
    data = build_batch(
        [Record(index, NOW, key, b"1") for index, key in enumerate((b"a", b"b"))],
        producer_id=9, producer_epoch=3, base_sequence=17,
    )  # fmt: skip
    log.append_as_leader(data, leader_epoch=5)
    log.update_high_watermark(log.end_offset)
    put(log, ("a", 2))
    log.roll()
    clean(log)
    batch = next(batch for _, batch in log.segments.first.log.batches())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (9, 3, 17, 18)
    assert (batch.partition_leader_epoch, batch.record_count) == (5, 1)


def test_second_cleaning_starts_where_the_first_ended_and_still_rewrites_from_the_start(log):
    put(log, ("a", 1), ("b", 1))
    log.roll()
    first = clean(log)
    put(log, ("a", 2))
    log.roll()
    second = clean(log, first.end_offset)
    assert (first.end_offset, second.end_offset) == (2, 3)
    assert second.map_bytes_read < second.bytes_read
    assert contents(log) == {1: ("b", "1"), 2: ("a", "2")}


# Tombstones.


def test_tombstone_removes_older_values_and_stays_until_its_horizon(log, clock):
    put(log, ("a", 1))
    put(log, ("a", None), timestamp=NOW - 10 * DAY)
    put(log, ("b", 1))
    log.roll()
    for _ in range(2):
        clean(log)
        assert contents(log) == {1: ("a", None), 2: ("b", "1")}
        assert next(batch for _, batch in log.segments.first.log.batches()).delete_horizon_ms == NOW + DAY
    clock.advance(DAY - 1)
    clean(log)
    assert contents(log) == {1: ("a", None), 2: ("b", "1")}
    clock.advance(1)
    clean(log)
    assert contents(log) == {2: ("b", "1")}


def test_horizon_keeps_the_records_timestamps_and_other_records(log):
    put(log, ("a", None), ("b", 1), timestamp=NOW - 7)
    put(log, ("c", 1))
    log.roll()
    clean(log)
    batch = next(batch for _, batch in log.segments.first.log.batches())
    assert (batch.delete_horizon_ms, batch.base_timestamp, batch.max_timestamp) == (NOW + DAY, NOW + DAY, NOW - 7)
    assert [(record.offset, record.timestamp, record.value) for record in batch.records()] == [
        (0, NOW - 7, None),
        (1, NOW - 7, b"1"),
    ]


def test_batch_keeps_its_horizon_when_the_tombstone_is_gone(log, clock):
    put(log, ("a", None), ("b", 1))
    put(log, ("c", 1))
    log.roll()
    clean(log)
    clock.advance(DAY)
    clean(log)
    batch = next(batch for _, batch in log.segments.first.log.batches())
    assert (batch.record_count, batch.delete_horizon_ms) == (1, NOW + DAY)


def test_even_keys_that_were_deleted_are_absent(log, clock):
    for number in range(20):
        put(log, (number, number))
    for number in range(0, 20, 2):
        put(log, (number, None))
    log.roll()
    clean(log)
    assert newest_values(contents(log)) == {str(number): str(number) for number in range(1, 20, 2)}
    clock.advance(DAY)
    clean(log)
    assert {key for key, _ in contents(log).values()} == {str(number) for number in range(1, 20, 2)}


def test_endless_delete_retention_does_not_overflow_the_horizon(tmp_path, clock):
    with compacted_log(tmp_path, {"delete.retention.ms": 2**63 - 1}, clock=clock) as log:
        put(log, ("a", None))
        put(log, ("b", 1))
        log.roll()
        clean(log)
        batch = next(batch for _, batch in log.segments.first.log.batches())
        assert (batch.delete_horizon_ms, batch.records()[0].timestamp) == (2**63 - 1, NOW)


def test_everything_deleted_leaves_one_empty_batch_before_the_active_segment(log, clock):
    for number in range(6):
        put(log, ("a", number), ("b", number))
    put(log, ("a", None), ("b", None))
    log.roll()
    clean(log)
    clock.advance(DAY)
    clean(log)
    assert batch_spans(log) == [(12, 13, 0)]
    assert log.segments.first.next_offset() == log.segments.active.base_offset == 14
    assert log.segments.first.size == HEADER_SIZE


# Old formats.


def legacy_log(tmp_path: Path, clock: ManualClock, magic: int, codec: Codec = Codec.NONE) -> Log:
    log = compacted_log(tmp_path, clock=clock)
    for base in (0, 3):
        records = [Record(base, NOW, b"a", b"%d" % base), Record(base + 1, NOW, b"b", b"1"), Record(base + 2, NOW, b"t", None)]
        log.append_as_follower(build_legacy(records, magic=magic, codec=codec))
    log.append_as_follower(build_legacy([Record(6, NOW, b"b", b"2"), Record(7, NOW, None, b"no key")], magic=magic, codec=codec))
    log.update_high_watermark(log.end_offset)
    log.roll()
    return log


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_old_formats_are_cleaned_in_their_own_format(tmp_path, clock, magic, codec):
    with legacy_log(tmp_path, clock, magic, codec) as log:
        stats = clean(log)
        assert contents(log) == {3: ("a", "3"), 5: ("t", None), 6: ("b", "2")}
        assert stats.filter.records_without_key == 1
        batches = [batch for _, batch in log.segments.first.log.batches()]
        assert {(batch.magic, batch.codec) for batch in batches} == {(magic, codec)}


def test_tombstone_of_an_old_format_goes_by_the_age_of_files_and_not_by_the_clock(tmp_path, clock):
    with legacy_log(tmp_path, clock, 1) as log:
        checkpoint = clean(log).end_offset
        clock.advance(100 * DAY)
        log.append_as_follower(build_legacy([Record(8, NOW, b"z", b"1")], magic=1))
        log.update_high_watermark(log.end_offset)
        log.roll()
        clean(log, checkpoint)
        # It lies in the last clean segment, which is not a day older than itself.
        assert contents(log) == {3: ("a", "3"), 5: ("t", None), 6: ("b", "2"), 8: ("z", "1")}


def test_old_tombstone_goes_when_a_clean_segment_behind_it_is_a_day_younger(tmp_path, clock):
    config = {"segment.bytes": 200}
    with compacted_log(tmp_path, config, clock=clock) as log:
        log.append_as_follower(build_legacy([Record(0, NOW, b"t", None)], magic=1))
        log.roll()
        log.append_as_follower(build_legacy([Record(1, NOW, b"filler", b"x" * 120)], magic=1))
        log.roll()
        log.append_as_follower(build_legacy([Record(2, NOW, b"z", b"1")], magic=1))
        log.roll()
        log.update_high_watermark(log.end_offset)
        times = [NOW // 1000 - 2 * 86_400, NOW // 1000, NOW // 1000]
        for segment, seconds in zip(list(log.segments)[:3], times, strict=True):
            os.utime(segment.log.path, (seconds, seconds))
        clean(log, 2)
        assert list(contents(log)) == [1, 2]


def test_wrapper_with_messages_of_an_older_magic_is_repaired(log):
    inner = build_legacy([Record(0, -1, b"a", b"1"), Record(1, -1, b"b", b"1")], magic=0)
    wrapper = build_legacy([Record(0, NOW, b"a", b"1"), Record(1, NOW, b"b", b"1")], magic=1, codec=Codec.GZIP)
    mixed = with_wrapped(wrapper, inner)
    log.append_as_follower(mixed)
    log.update_high_watermark(2)
    log.roll()
    clean(log)
    (batch,) = [batch for _, batch in log.segments.first.log.batches()]
    assert batch.magic == 1
    assert not batch.holds_older_messages()
    assert contents(log) == {0: ("a", "1"), 1: ("b", "1")}


def with_wrapped(wrapper: bytes, inner: bytes) -> bytes:
    """The wrapper message of magic 1 with another payload, its size and CRC corrected."""
    import gzip
    import struct
    import zlib

    payload = gzip.compress(inner)
    body = wrapper[16:26] + struct.pack(">ii", -1, len(payload)) + payload
    return wrapper[:8] + struct.pack(">iI", 4 + len(body), zlib.crc32(body)) + body


# Producers.


def producer_batch(log: Log, producer_id: int, sequence: int, *pairs: tuple[object, object]) -> int:
    return put(log, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_last_batch_of_every_producer_is_kept_for_its_sequence(tmp_path, clock):
    log = compacted_log(tmp_path, clock=clock)
    producer_batch(log, 1, 0, (2, 1), (3, 1), (1, 1))
    producer_batch(log, 2, 0, (2, 2), (3, 2), (1, 2))
    producer_batch(log, 3, 0, (1, 3), (4, 3))
    put(log, (2, 9), (3, 9))
    log.roll()
    stats = clean(log)
    assert batch_spans(log) == [(0, 2, 0), (3, 5, 0), (6, 7, 2), (8, 9, 2)]
    assert contents(log) == {6: ("1", "3"), 7: ("4", "3"), 8: ("2", "9"), 9: ("3", "9")}
    assert stats.filter.batches_kept_empty == 2
    log.close()
    again = compacted_log(tmp_path, clock=clock)
    assert {entry.producer_id: entry.last_sequence for entry in again.producers.producers.values()} == {1: 2, 2: 2, 3: 1}
    # A retry of a batch that is empty by now still gets its first answer.
    retry = again.append_as_leader(
        build_batch(
            [Record(index, NOW, as_bytes(key), b"1") for index, key in enumerate((2, 3, 1))],
            producer_id=1, producer_epoch=0, base_sequence=0,
        )
    )  # fmt: skip
    assert (retry.is_duplicate, retry.first_offset, retry.last_offset) == (True, 0, 2)
    clean(again)
    assert batch_spans(again)[:2] == [(0, 2, 0), (3, 5, 0)]
    again.close()


def test_empty_batch_goes_when_its_producer_has_written_again(log):
    producer_batch(log, 1, 0, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    clean(log)
    assert batch_spans(log) == [(0, 0, 0), (1, 1, 1)]
    producer_batch(log, 1, 1, ("b", 1))
    log.roll()
    clean(log)
    assert batch_spans(log) == [(1, 1, 1), (2, 2, 1)]


def test_empty_batch_goes_when_its_producer_is_forgotten(log, clock):
    producer_batch(log, 1, 0, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    clean(log)
    clock.advance(DAY)
    log.producers.remove_expired(clock.now_ms())
    clean(log)
    assert batch_spans(log) == [(1, 1, 1)]
