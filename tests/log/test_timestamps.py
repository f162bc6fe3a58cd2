"""Reading by time: what ListOffsets answers, and how a time is turned into a position."""

from __future__ import annotations

import os

import pytest

from milepost.log.reading import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, TimestampAndOffset
from milepost.record.builder import build_batch
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from milepost.segment.trace import IndexSearch, LogScan, SegmentChoice
from tests.log.making import NOW, log_in, produced


def appended(tmp_path, *times, epoch=0, **config):
    """One batch per list of times; every batch under the next leader epoch."""
    log = log_in(tmp_path, **config)
    for number, batch_times in enumerate(times):
        data = build_batch([Record(place, time, b"k", b"") for place, time in enumerate(batch_times)])
        log.append_as_leader(data, leader_epoch=epoch + number)
    log.update_high_watermark(log.end_offset)
    return log


def answer(log, time):
    found = log.offset_for(time)
    return None if found is None else (found.timestamp, found.offset, found.leader_epoch)


def test_earliest_and_latest_have_no_timestamp_and_their_epochs(tmp_path):
    log = appended(tmp_path, [NOW], [NOW + 1])
    assert log.offset_for(EARLIEST) == TimestampAndOffset(-1, 0, 0)
    assert log.offset_for(EARLIEST_LOCAL) == TimestampAndOffset(-1, 0, 0)
    assert log.offset_for(LATEST) == TimestampAndOffset(-1, 2, 1)
    log.epochs.assign(2, 2)
    assert log.offset_for(LATEST) == TimestampAndOffset(-1, 2, 2)


def test_earliest_follows_the_log_start(tmp_path):
    log = appended(tmp_path, [NOW], [NOW + 1], [NOW + 2])
    log.increment_start(2)
    assert log.offset_for(EARLIEST) == TimestampAndOffset(-1, 2, 2)


def test_empty_log_has_ends_without_epochs_and_no_newest_record(tmp_path):
    log = log_in(tmp_path)
    assert log.offset_for(EARLIEST) == TimestampAndOffset(-1, 0, -1)
    assert log.offset_for(LATEST) == TimestampAndOffset(-1, 0, -1)
    assert log.offset_for(MAX_TIMESTAMP) is None
    assert log.offset_for(0) is None


def test_nothing_is_tiered(tmp_path):
    log = log_in(tmp_path)
    assert log.offset_for(LATEST_TIERED) == TimestampAndOffset(-1, -1, -1)
    log.append_as_leader(produced())
    assert log.offset_for(LATEST_TIERED) == TimestampAndOffset(-1, -1, -1)


@pytest.mark.parametrize(
    ("time", "found"),
    [
        (0, (10, 0, 0)),
        (10, (10, 0, 0)),
        (11, (30, 1, 0)),
        (31, (40, 3, 1)),
        (41, (60, 4, 1)),
        (60, (60, 4, 1)),
        (61, (70, 6, 2)),
        (90, (90, 7, 2)),
        (91, None),
    ],
)
def test_first_record_that_is_not_older_is_found(tmp_path, time, found):
    log = appended(tmp_path, [10, 30, 20], [40, 60, 50], [70, 90, 80])
    assert answer(log, time) == found


def test_lookup_goes_to_the_first_segment_whose_newest_record_is_not_older(tmp_path):
    log = appended(tmp_path, [10], [50], [20], [30], [60], segment_bytes=100)
    assert log.segments.base_offsets() == [0, 1, 2, 3, 4]
    assert answer(log, 20) == (50, 1, 1)
    assert answer(log, 51) == (60, 4, 4)


def test_records_below_the_log_start_are_not_found(tmp_path):
    log = appended(tmp_path, [10], [20], [30])
    log.increment_start(1)
    assert answer(log, 0) == (20, 1, 1)


def test_no_later_segment_is_tried_when_the_chosen_one_has_no_answer(tmp_path):
    log = appended(tmp_path, [10, 99], [20, 21], segment_bytes=100)
    assert log.segments.base_offsets() == [0, 2]
    log.increment_start(2)
    # The first segment is not looked into: all of it lies below the start.
    assert answer(log, 15) == (20, 2, 1)


def test_newest_timestamp_is_that_of_its_earliest_record(tmp_path):
    log = appended(tmp_path, [10, 90, 20], [90, 30], [80])
    assert answer(log, MAX_TIMESTAMP) == (90, 1, 0)


def test_newest_timestamp_in_an_older_segment_is_found_there(tmp_path):
    log = appended(tmp_path, [10], [90, 40], [20], segment_bytes=100)
    assert len(log.segments) == 3
    assert answer(log, MAX_TIMESTAMP) == (90, 1, 1)


def test_newest_timestamp_is_the_same_after_a_restart(tmp_path):
    log = appended(tmp_path, [10], [90, 40], [20])
    log.close()
    assert answer(log_in(tmp_path), MAX_TIMESTAMP) == (90, 1, 1)


def test_log_of_magic_zero_has_no_newest_and_its_segments_are_as_old_as_their_files(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(build_legacy([Record(place, -1, b"k", b"v") for place in range(3)], magic=0))
    os.utime(tmp_path / "topic-0" / "00000000000000000000.log", (NOW / 1000, NOW / 1000))
    assert log.offset_for(MAX_TIMESTAMP) is None
    assert log.offset_for(NOW) is None
    assert log.segments.active.largest_timestamp == NOW


def test_record_of_magic_one_is_found_without_an_epoch(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(build_legacy([Record(place, NOW + place, b"k", b"v") for place in range(3)], magic=1))
    assert answer(log, NOW + 1) == (NOW + 1, 1, -1)


def test_every_time_gives_what_a_scan_of_all_records_gives(tmp_path):
    times = [[(7 * number * number + 3 * place) % 997 for place in range(4)] for number in range(60)]
    log = appended(tmp_path, *times, segment_bytes=900, index_interval_bytes=150)
    flat = list(enumerate(time for batch_times in times for time in batch_times))
    bases = log.segments.base_offsets()
    assert len(bases) > 3
    segments = [[pair for pair in flat if low <= pair[0] < high] for low, high in zip(bases, [*bases[1:], 10**9], strict=True)]
    for time in range(1010):
        chosen = next((segment for segment in segments if max(stamp for _, stamp in segment) >= time), [])
        expected = next((offset for offset, stamp in chosen if stamp >= time), None)
        found = log.offset_for(time)
        assert (found and found.offset) == expected


def test_traced_lookup_by_time_shows_both_indexes(tmp_path):
    log = appended(tmp_path, *[[10 * number] for number in range(10)], index_interval_bytes=0)
    found = log.find(time=45, trace=True)
    assert (found.offset, found.timestamp) == (5, 50)
    choice, times, positions, scan = found.steps
    assert isinstance(choice, SegmentChoice)
    assert (choice.rule, choice.base_offset, choice.largest_timestamp) == ("first not older", 0, 90)
    assert isinstance(times, IndexSearch)
    assert (times.entry_size, times.entry, times.next_entry) == (12, (40, 4), (50, 5))
    assert isinstance(positions, IndexSearch)
    assert (positions.entry_size, positions.target) == (8, 4)
    assert isinstance(scan, LogScan)
    assert scan.batches_skipped == 1


def test_lookup_of_a_time_behind_the_log_shows_that_nothing_was_chosen(tmp_path):
    found, steps = appended(tmp_path, [10], [20]).explain(time=21)
    assert (found, steps) == (None, [])
