"""One cleaning of one log: what survives it, in which form, and what it leaves alone."""

from __future__ import annotations

import os
import queue
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord
from milepost.log.cleanable import measure
from milepost.log.cleaner import Cleaner, CleaningAborted, group_sources, make_plan
from milepost.log.log import Log
from milepost.log.offset_map import OffsetMap
from milepost.record.batch import HEADER_SIZE, TimestampType
from milepost.record.builder import build_batch, build_legacy
from milepost.record.control import ControlType
from milepost.record.records import Record
from milepost.segment.append_unit import AppendUnit
from milepost.segment.file_records import Hole
from tests.log.cleaned_logs import (
    DAY,
    NOW,
    as_bytes,
    batch_spans,
    clean,
    compacted_log,
    contents,
    leftovers,
    newest_values,
    put,
    put_marker,
)

INT_MAX = 2**31 - 1
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(tmp_path, clock):
    with compacted_log(tmp_path, clock=clock) as opened:
        yield opened


def transactional(log: Log, producer_id: int, *pairs: tuple[object, object], sequence: int = 0, epoch: int = 0) -> int:
    return put(log, *pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def all_offsets(log: Log) -> list[int]:
    """Of every record, markers included."""
    return [record.offset for segment in log.segments for _, batch in segment.log.batches() for record in batch.records()]


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


# Transactions.


def test_aborted_data_goes_with_its_first_cleaning_and_committed_data_stays(log):
    transactional(log, 1, (1, "a"), (2, "a"))  # 0 1
    transactional(log, 2, (3, "b"))  # 2
    transactional(log, 2, (2, "b"), sequence=1)  # 3
    put_marker(log, ABORT, 1)  # 4
    put_marker(log, COMMIT, 2)  # 5
    log.roll()
    aborted = list(log.segments.first.txn_index.transactions())
    clean(log)
    assert contents(log) == {2: ("3", "b"), 3: ("2", "b")}
    assert all_offsets(log) == [2, 3, 4, 5]
    assert list(log.segments.first.txn_index.transactions()) == aborted


def test_newer_aborted_record_does_not_hide_an_older_committed_one(log):
    put(log, ("k", "committed"))
    transactional(log, 1, ("k", "aborted"))
    put_marker(log, ABORT, 1)
    log.roll()
    clean(log)
    assert contents(log) == {0: ("k", "committed")}


def test_commit_marker_stays_while_data_remains_then_until_its_horizon(log, clock):
    transactional(log, 1, ("a", 1))  # 0
    put_marker(log, COMMIT, 1)  # 1
    put(log, ("b", 1))  # 2
    log.roll()
    clean(log)
    assert all_offsets(log) == [0, 1, 2]
    transactional(log, 1, ("a", 2), sequence=1)  # 3
    put_marker(log, COMMIT, 1)  # 4
    log.roll()
    clean(log)
    marker = next(batch for _, batch in log.segments.first.log.batches() if batch.base_offset == 1)
    assert all_offsets(log) == [1, 2, 3, 4]
    assert marker.delete_horizon_ms is None or marker.delete_horizon_ms == NOW + DAY
    clean(log)
    clean(log)
    assert all_offsets(log) == [1, 2, 3, 4]
    clock.advance(DAY)
    clean(log)
    assert all_offsets(log) == [2, 3, 4]


def test_abort_marker_without_data_goes_after_its_horizon_and_its_index_entry_before(log, clock):
    transactional(log, 1, ("a", 1))  # 0
    put_marker(log, ABORT, 1)  # 1
    transactional(log, 1, ("b", 1), sequence=1)  # 2
    put_marker(log, COMMIT, 1)  # 3
    put(log, ("c", 1))  # 4
    log.roll()
    clean(log)
    assert (all_offsets(log), len(log.segments.first.txn_index.transactions())) == ([1, 2, 3, 4], 1)
    clean(log)
    assert (all_offsets(log), len(log.segments.first.txn_index.transactions())) == ([1, 2, 3, 4], 0)
    clean(log)
    assert all_offsets(log) == [1, 2, 3, 4]
    clock.advance(DAY)
    clean(log)
    assert all_offsets(log) == [2, 3, 4]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_marker_in_another_segment_than_its_data(tmp_path, clock, kind):
    with compacted_log(tmp_path, {"segment.bytes": 160}, clock=clock) as log:
        transactional(log, 1, ("a", "x" * 60))  # 0
        log.roll()
        put(log, ("b", "x" * 60))  # 1
        log.roll()
        put_marker(log, kind, 1)  # 2
        put(log, ("c", 1))  # 3
        log.roll()
        clean(log)
        assert 2 in all_offsets(log)
        if kind is COMMIT:
            assert contents(log) == {0: ("a", "x" * 60), 1: ("b", "x" * 60), 3: ("c", "1")}
        else:
            # The producer's last batch: its data is gone, its sequence is not.
            assert contents(log) == {1: ("b", "x" * 60), 3: ("c", "1")}
            assert batch_spans(log)[0] == (0, 0, 0)
        assert [record.offset for record in log.records(isolation="committed")] == sorted(contents(log))


def test_marker_behind_the_end_of_the_pass_decides_data_inside_it(log):
    put(log, ("k", "old"))  # 0
    transactional(log, 1, ("k", "aborted"))  # 1
    put(log, ("x", 1))  # 2
    log.roll()
    put_marker(log, ABORT, 1)  # 3, in the active segment
    clean(log)
    assert contents(log) == {0: ("k", "old"), 2: ("x", "1")}


def test_cleaning_never_passes_an_open_transaction(log):
    put(log, ("k", 1))
    put(log, ("k", 2))
    log.roll()
    transactional(log, 1, ("k", "undecided"))
    put(log, ("k", 3))
    log.roll()
    work = measure(log, None)
    assert work.first_uncleanable_offset == 2
    assert clean(log).end_offset == 2
    assert contents(log) == {1: ("k", "2"), 2: ("k", "undecided"), 3: ("k", "3")}


def test_cleaning_never_passes_the_high_watermark(log):
    for number in range(4):
        put(log, ("k", number))
        log.roll()
    log.high_watermark = 2
    clean(log)
    assert sorted(contents(log)) == [1, 2, 3]


def test_record_with_the_key_of_a_commit_marker_is_not_superseded_by_one(log):
    marker_key = b"\0\0\0\1"
    for producer_id, offset in ((1, 0), (2, 2)):
        records = [Record(0, NOW, marker_key + bytes([offset]), b"value")]
        log.append_as_leader(
            build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        put_marker(log, COMMIT, producer_id)
    log.roll()
    clean(log)
    assert all_offsets(log) == [0, 1, 2, 3]


def test_producer_that_starts_its_sequences_again_leaves_only_its_last_batch(log, clock):
    for epoch in range(3):
        transactional(log, 1, ("a", epoch), epoch=epoch)
        put_marker(log, COMMIT, 1, epoch=epoch)
    put(log, ("a", "last"))
    log.roll()
    clean(log)
    assert batch_spans(log) == [(1, 1, 1), (3, 3, 1), (4, 4, 0), (5, 5, 1), (6, 6, 1)]
    clock.advance(DAY)
    log.producers.producers[1].last_timestamp = clock.now_ms()
    clean(log)
    # The markers at 1 and 3 got their horizon in the first cleaning only if their data was gone by then: one more is needed.
    clock.advance(DAY)
    clean(log)
    assert batch_spans(log) == [(4, 4, 0), (5, 5, 1), (6, 6, 1)]


def test_marker_is_kept_empty_when_it_is_all_that_is_known_of_its_producer(log, clock):
    put_marker(log, ABORT, 1, epoch=4)
    put(log, ("a", 1))
    log.roll()
    clean(log)
    clock.advance(DAY)
    clean(log)
    assert batch_spans(log) == [(0, 0, 0), (1, 1, 1)]
    batch = next(batch for _, batch in log.segments.first.log.batches())
    assert (batch.is_control, batch.producer_id, batch.producer_epoch) == (True, 1, 4)


# Segments.


def test_small_segments_are_put_together_and_keep_the_last_files_time(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 400}, clock=clock) as log:
        for number in range(12):
            put(log, (number % 2, "x" * 20))
            if number % 3 == 2:
                log.roll()
        bases = log.segments.base_offsets()
        assert bases == [0, 3, 6, 9, 12]
        for segment in log.segments:
            os.utime(segment.log.path, (NOW // 1000 - 1000 + segment.base_offset,) * 2)
        clean(log)
        # Groups form by the sizes before the cleaning; the next one finds the segments small.
        assert log.segments.base_offsets() == [0, 3, 6, 9, 12]
        clean(log)
        assert log.segments.base_offsets() == [0, 12]
        seconds = NOW // 1000 - 1000 + 9
        names = [name for name in os.listdir(log.directory) if name.startswith(f"{0:020d}") and not name.endswith("deleted")]
        assert {name: int(os.stat(f"{log.directory}/{name}").st_mtime) for name in names if name.endswith(".log")} == {
            f"{0:020d}.log": seconds
        }


def test_snapshot_of_a_segment_that_was_merged_goes_and_the_first_ones_stays(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 1000}, clock=clock) as log:
        for number in range(6):
            put(log, ("k", number))
            log.roll()
        assert log.producers.snapshots() == [1, 2, 3, 4, 5, 6]
        clean(log)
        assert log.segments.base_offsets() == [0, 6]
        assert log.producers.snapshots() == [6]
        clock.advance(60_000)
        log.scheduler.run_due()
        assert leftovers(log) == []


def test_old_files_stay_readable_until_the_delay_is_over(log, clock):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    fetched = log.read(0)
    clean(log)
    assert [batch.base_offset for batch in fetched.batches] == [0, 1]
    assert leftovers(log) != []
    clock.advance(60_000)
    log.scheduler.run_due()
    assert leftovers(log) == []


def sources(log: Log) -> list[list[int]]:
    plan = make_plan(measure(log, None))
    groups = group_sources(plan.sources, log.config.segment_bytes, log.config.segment_index_bytes, plan.upper_bound)
    for source in plan.sources:
        source.segment.close_handles()
    return [[source.base_offset for source in group] for group in groups]


def at(log: Log, offset: int, key: str = "key") -> None:
    log.append_as_follower(build_batch([Record(offset, NOW, key.encode(), b"v")], base_offset=offset))
    log.update_high_watermark(log.end_offset)


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ({}, [[0, 2, 4, 6]]),
        ({"segment.bytes": 300}, [[0, 2], [4, 6]]),
        ({"segment.bytes": 200}, [[0], [2], [4], [6]]),
        ({"index.interval.bytes": 0, "segment.index.bytes": 36}, [[0, 2, 4], [6]]),
        ({"index.interval.bytes": 0, "segment.index.bytes": 24}, [[0, 2], [4, 6]]),
    ],
)
def test_groups_are_bounded_by_the_sizes_of_log_and_indexes(tmp_path, clock, config, groups):
    with compacted_log(tmp_path, config, clock=clock) as log:
        for number in range(8):
            put(log, (number, 1), timestamp=NOW + number)
            if number % 2:
                log.roll()
        assert sources(log) == groups


@pytest.mark.parametrize(
    ("third", "groups"),
    [(INT_MAX + 1, [[0, 1], [INT_MAX + 1]]), (INT_MAX + 2, [[0], [1], [INT_MAX + 2]])],
    ids=["its last offset may just fit", "it may not"],
)
def test_segment_is_grouped_by_the_last_offset_it_could_have(log, third, groups):
    at(log, 0)
    log.roll()
    at(log, 1)
    log.roll(third)
    at(log, third)
    log.roll()
    assert sources(log) == groups


def test_sparse_segments_are_grouped_by_the_base_of_the_next(log):
    at(log, 0)
    log.roll()
    at(log, INT_MAX)
    log.roll()
    at(log, INT_MAX + 2)
    log.roll()
    at(log, 2 * INT_MAX)
    log.roll()
    bases = log.segments.base_offsets()
    assert sources(log) == [[bases[0], bases[1]], [bases[2], bases[3]]]


def test_empty_segment_joins_a_group_however_far_its_end_is(log):
    at(log, 0)
    log.roll()
    at(log, 1)
    log.roll(INT_MAX + 100)
    at(log, INT_MAX + 100)
    log.roll()
    empty = log.segments.floor(1)
    assert empty is not None
    assert sources(log) == [[0], [1], [INT_MAX + 100]]
    empty.log.truncate_to(0)
    assert sources(log) == [[0, 1], [INT_MAX + 100]]


def test_log_of_sparse_offsets_is_cleaned_and_can_be_loaded(tmp_path, clock):
    log = compacted_log(tmp_path, clock=clock)
    for offset in (0, INT_MAX - 5, INT_MAX + 5, 2 * INT_MAX + 5):
        at(log, offset, "same")
        log.roll()
    clean(log)
    assert list(contents(log)) == [2 * INT_MAX + 5]
    log.close()
    again = compacted_log(tmp_path, clock=clock)
    assert (list(contents(again)), again.end_offset) == ([2 * INT_MAX + 5], 2 * INT_MAX + 6)
    again.close()


def overflowed(log: Log, offsets: list[int]) -> None:
    """Put batches into the first segment that do not fit it, as old compaction did."""
    segment = log.segments.active
    for offset in offsets:
        data = build_batch([Record(offset, NOW, b"k%d" % (offset % 2), b"%d" % offset)], base_offset=offset)
        if offset - segment.base_offset <= INT_MAX:
            segment.append([data], [AppendUnit(offset, len(data), NOW, offset)])
        else:
            segment.log.append([data], len(data))
        log.end_offset = offset + 1
    log.producers.update_map_end_offset(log.end_offset)
    log.roll()
    log.update_high_watermark(log.end_offset)


def test_overflowed_segment_is_split_and_the_cleaning_starts_over(log):
    overflowed(log, [0, 1, 2, INT_MAX + 3, INT_MAX + 4])
    before = contents(log)
    with pytest.raises(CleaningAborted, match="was split"):
        clean(log)
    assert contents(log) == before
    assert log.segments.base_offsets() == [0, INT_MAX + 3, INT_MAX + 5]
    assert [name for name in leftovers(log) if not name.endswith("deleted")] == []
    clean(log)
    assert sorted(contents(log)) == [INT_MAX + 3, INT_MAX + 4]


# Limits.


@pytest.mark.parametrize("io_buffer_bytes", [1, 100, 1000, 262_144])
def test_buffer_smaller_than_a_batch_grows(log, io_buffer_bytes):
    for number in range(20):
        put(log, (number % 5, "x" * (number * 30)))
    put(log, *((f"key{number}", "y" * 10) for number in range(200)))
    log.roll()
    clean(log, io_buffer_bytes=io_buffer_bytes)
    assert sorted(contents(log)) == list(range(15, 220))


def test_batches_that_go_without_being_read_still_make_progress(log):
    for number in range(10):
        transactional(log, 1, ("a", "x" * 80), sequence=number)
    put_marker(log, ABORT, 1)
    put(log, ("b", 1))
    log.roll()
    clean(log, io_buffer_bytes=100)
    assert contents(log) == {11: ("b", "1")}


def test_full_map_ends_the_round_and_the_next_takes_up_there(log):
    for number in range(20):
        put(log, (f"key{number % 10}", number))
    log.roll()
    checkpoint, rounds = None, 0
    while checkpoint != 20:
        stats = clean(log, checkpoint, map_bytes=24 * 5)  # four keys
        assert stats.end_offset > (checkpoint or 0)
        checkpoint, rounds = stats.end_offset, rounds + 1
    assert rounds == 5
    assert sorted(contents(log)) == list(range(10, 20))


def test_map_that_fills_inside_a_batch_leaves_the_rest_of_it_alone(log):
    put(log, *((f"key{number}", 1) for number in range(6)), ("key0", 2))
    put(log, ("key1", 2))
    log.roll()
    stats = clean(log, map_bytes=24 * 5)
    assert stats.end_offset == 4
    assert sorted(contents(log)) == list(range(8))
    clean(log, stats.end_offset, map_bytes=1 << 16)
    assert sorted(contents(log)) == [2, 3, 4, 5, 6, 7]


def test_young_segments_wait_for_the_compaction_lag(tmp_path, clock):
    with compacted_log(tmp_path, {"min.compaction.lag.ms": 1000}, clock=clock) as log:
        for number in range(4):
            put(log, ("k", number), timestamp=NOW - 5000 + number * 1500)
            log.roll()
        young = log.segments.floor(3)
        assert young is not None
        before = young.log.read(0, young.size)
        assert clean(log).end_offset == 3
        assert sorted(contents(log)) == [2, 3]
        kept = log.segments.floor(3)
        assert kept is not None
        assert kept.log.read(0, kept.size) == before


def test_cleaning_is_told_to_stop_and_leaves_nothing_behind(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 200}, clock=clock) as log:
        for number in range(9):
            put(log, ("k", "x" * 100 + str(number)))
        log.roll()
        before = contents(log)
        calls: list[int] = []

        def stop(after: int) -> Callable[[int], None]:
            def advance(read: int) -> None:
                calls.append(read)
                if len(calls) > after:
                    raise CleaningAborted("enough")

            return advance

        for after in range(9):
            calls.clear()
            with pytest.raises(CleaningAborted, match="enough"):
                Cleaner(OffsetMap(4096), advance=stop(after)).clean(measure(log, None))
            assert newest_values(contents(log)) == newest_values(before)
            assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []
        assert contents(log) == before


def test_segments_that_retention_took_meanwhile_do_not_come_back(log):
    put(log, ("k", 1))
    put(log, ("k", 2))
    log.roll()
    put(log, ("k", 3))
    log.roll()

    def retention_first(step: Callable[[], None]) -> None:
        if any(name.endswith(".cleaned") for name in leftovers(log)):
            log.delete_segments([segment for segment in log.segments if segment.base_offset < 3])
        step()

    Cleaner(OffsetMap(4096), on_owner=retention_first).clean(measure(log, None))
    assert log.segments.base_offsets() == [3]
    assert (log.start_offset, contents(log)) == (3, {})
    assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []


def test_segment_that_retention_took_is_renamed_once_and_the_others_are_replaced(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 90}, clock=clock) as log:
        for number in range(3):
            put(log, ("k", number))
        log.roll()

        def retention_first(step: Callable[[], None]) -> None:
            if any(name.endswith(f"{1:020d}.log.cleaned") for name in leftovers(log)) and 0 in log.segments:
                log.delete_segments([log.segments.first])
            step()

        Cleaner(OffsetMap(4096), on_owner=retention_first).clean(measure(log, None))
        assert log.segments.base_offsets() == [1, 2, 3]
        assert log.start_offset == 1


def test_cleaning_on_another_thread_while_the_owner_appends(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 2000}, clock=clock) as log:
        for number in range(300):
            put(log, (number % 7, f"v{number}"))
        steps: queue.Queue[tuple[Callable[[], None], queue.Queue[BaseException | None]] | None] = queue.Queue()

        def on_owner(step: Callable[[], None]) -> None:
            answer: queue.Queue[BaseException | None] = queue.Queue()
            steps.put((step, answer))
            error = answer.get()
            if error is not None:
                raise error

        cleaner = Cleaner(OffsetMap(4096), on_owner=on_owner, io_buffer_bytes=500)
        work = measure(log, None)

        def run() -> None:
            try:
                cleaner.clean(work)
            finally:
                steps.put(None)

        thread = threading.Thread(target=run)
        thread.start()
        appended = 300
        while (posted := steps.get()) is not None:
            step, answer = posted
            for _ in range(5):
                put(log, (appended % 7, f"v{appended}"))
                appended += 1
            step()
            answer.put(None)
        thread.join()
        assert newest_values(contents(log)) == {str(number % 7): f"v{number}" for number in range(appended - 7, appended)}
        assert work.first_uncleanable_offset > 250
        assert sorted(contents(log))[0] == work.first_uncleanable_offset - 7
        assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []


# Damage.


def damaged(log: Log) -> None:
    first = log.segments.first
    fd = os.open(first.log.path, os.O_RDWR)
    byte = os.pread(fd, 1, first.size - 3)
    os.pwrite(fd, bytes([byte[0] ^ 1]), first.size - 3)
    os.close(fd)


@pytest.mark.parametrize("checkpoint", [None, 2], ids=["in the dirty part", "in the clean part"])
def test_damaged_batch_stops_the_cleaning_before_anything_is_replaced(log, checkpoint):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    put(log, ("b", 1))
    log.roll()
    damaged(log)
    before = log.segments.first.log.read(0, log.segments.first.size)
    with pytest.raises(CorruptRecord, match=r"00000\.log.*CRC-32C"):
        clean(log, checkpoint)
    assert log.segments.first.log.read(0, log.segments.first.size) == before
    assert leftovers(log) == []


@pytest.mark.parametrize("left", [1, 16, 17, 60])
def test_segment_cut_inside_a_batch_stops_the_cleaning(log, left):
    put(log, ("a", 1))
    size = log.segments.first.size
    put(log, ("a", 2))
    log.roll()
    log.segments.first.log.truncate_to(size + left)
    with pytest.raises(CorruptRecord, match=f"position {size} needs .* {left} are left"):
        clean(log)
    assert leftovers(log) == []


def test_cleaning_stops_before_a_segment_with_a_hole(log):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    put(log, ("a", 3))
    log.roll()
    second = log.segments.floor(2)
    assert second is not None
    second.log.holes = [Hole(0, 10, 2, 3)]
    work = measure(log, None)
    assert work.first_uncleanable_offset == 2
    second.log.holes = []


# After all of that.


def test_cleaned_log_survives_a_crash_without_its_indexes(tmp_path, clock):
    log = compacted_log(tmp_path, {"index.interval.bytes": 100}, clock=clock)
    transactional(log, 1, ("a", 1))
    for number in range(40):
        put(log, (number % 7, "x" * 30), timestamp=NOW + number)
    put_marker(log, ABORT, 1)
    log.roll()
    clean(log)
    expected = contents(log)
    log.flush()
    log.owner.directory.close(False, {})
    for path in Path(log.directory).glob("*index"):
        path.unlink()
    again = compacted_log(tmp_path, {"index.interval.bytes": 100}, clock=clock)
    assert contents(again) == expected
    assert [record.offset for record in again.records(isolation="committed")] == list(expected)
    again.close()


actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 99))), max_size=5)),
        st.tuples(st.just("transaction"), st.tuples(st.integers(1, 3), st.integers(0, 6), st.sampled_from([COMMIT, ABORT]))),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("clean"), st.integers(0, 2)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=30,
)


@given(actions, st.integers(0, 2**32))
def test_reader_of_committed_data_ends_up_with_the_same_values_whatever_was_cleaned(tmp_path_factory, history, seed):
    directory, clock, rng = tmp_path_factory.mktemp("history"), ManualClock(NOW), random.Random(seed)
    log = compacted_log(directory, {"segment.bytes": 700}, clock=clock)
    model: dict[str, str] = {}
    sequences = dict.fromkeys((1, 2, 3), 0)
    checkpoint: int | None = None
    for action, given_ in history:
        if action == "put" and given_:
            put(log, *given_, codec=rng.choice(list(Codec)))
            apply(model, given_)
        elif action == "transaction":
            producer_id, key, kind = given_
            entry = log.producers.last_entry(producer_id)
            sequences[producer_id] = entry.last_sequence + 1 if entry is not None else 0
            pairs = [(key, rng.randrange(1000)), (key + 1, None)]
            transactional(log, producer_id, *pairs, sequence=sequences[producer_id])
            put_marker(log, kind, producer_id)
            if kind is COMMIT:
                apply(model, pairs)
        elif action == "roll":
            log.roll()
        elif action == "clean":
            work = measure(log, checkpoint)
            if work.cleanable_bytes:
                checkpoint = clean(log, checkpoint, map_bytes=rng.choice([24 * 4, 1 << 16])).end_offset
            clock.advance(given_ * DAY // 2)
        elif action == "reopen":
            log.close()
            log = compacted_log(directory, {"segment.bytes": 700}, clock=clock)
        records = {record.offset: (record.key.decode(), record.value) for record in log.records(isolation="committed")}
        state = {key: value for _, (key, value) in sorted(records.items())}
        assert {key: value.decode() for key, value in state.items() if value is not None} == model
    log.close()


def apply(model: dict[str, str], pairs: list[tuple[int, int | None]]) -> None:
    for key, value in pairs:
        if value is None:
            model.pop(str(key), None)
        else:
            model[str(key)] = str(value)
