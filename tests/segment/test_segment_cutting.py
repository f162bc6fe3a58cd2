"""Cutting a segment, and what its indexes and times are afterwards."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.segment.file_records import Hole
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction
from tests.segment.making import INT_MAX, append, batch, offset_entries, offsets_in, segment_in, time_entries


def test_cut_removes_the_batch_that_holds_the_offset_and_all_behind_it(tmp_path):
    segment = segment_in(tmp_path)
    append(segment, *[batch(3 * place, 3, size=100) for place in range(4)])
    assert segment.truncate_to(7) == 200
    assert offsets_in(segment) == [0, 1, 2, 3, 4, 5]
    assert segment.next_offset() == 6


def test_cut_in_a_gap_removes_the_batch_behind_it(tmp_path):
    segment = segment_in(tmp_path, 40)
    append(segment, batch(40), batch(43))
    segment.truncate_to(41)
    assert offsets_in(segment) == [40]


def test_cut_behind_the_end_removes_nothing(tmp_path):
    segment = segment_in(tmp_path)
    append(segment, batch(0, 2, size=100))
    assert segment.truncate_to(2) == 0
    assert offsets_in(segment) == [0, 1]


@pytest.mark.parametrize(("offset", "kept"), [(7, 400), (6, 400), (5, 200), (4, 200), (3, 100)])
def test_cut_in_and_around_a_hole_takes_the_whole_hole(tmp_path, offset, kept):
    segment = segment_in(tmp_path)
    append(segment, *[batch(2 * place, 2, size=100) for place in range(3)])
    # Offsets 4 and 5 are lost in 200 damaged bytes; 6 and 7 lie behind them.
    segment.log.truncate_to(200)
    segment.log.append([b"\xff" * 200, batch(6, 2, size=100)], 300)
    segment.log.holes = [Hole(200, 400, 4, 6)]
    segment.truncate_to(offset)
    assert segment.size == kept
    assert segment.log.holes == ([Hole(200, 400, 4, 6)] if kept == 400 else [])


def test_cut_takes_the_index_entries_and_the_largest_timestamp_with_it(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0)
    append(segment, *[batch(place, size=100, timestamp=place * 10) for place in range(5)])
    segment.txn_index.append(AbortedTransaction(1, 0, 2, 0))
    segment.txn_index.append(AbortedTransaction(1, 3, 4, 3))
    segment.truncate_to(3)
    assert offset_entries(segment) == [(1, 100), (2, 200)]
    assert time_entries(segment) == [(10, 1), (20, 2)]
    assert segment.max_so_far == TimestampOffset(20, 2)
    assert [aborted.last_offset for aborted in segment.txn_index.transactions()] == [2]
    append(segment, batch(3, size=100, timestamp=15))
    assert segment.max_so_far == TimestampOffset(20, 2)


def test_largest_timestamp_after_a_cut_is_found_behind_the_last_time_entry(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=10_000)
    append(segment, *[batch(place, size=100, timestamp=place * 10) for place in range(5)])
    segment.truncate_to(3)
    assert segment.max_so_far == TimestampOffset(20, 2)


def test_cut_to_nothing_makes_the_segment_new(tmp_path):
    clock = ManualClock(1000)
    segment = segment_in(tmp_path, clock=clock, index_interval_bytes=0, segment_ms=500)
    append(segment, batch(0, timestamp=10), batch(1, timestamp=11))
    clock.advance(400)
    segment.truncate_to(0)
    assert segment.waited_ms(-1) == 0
    assert not segment.is_index_full
    assert segment.read(0, 100) is None
    append(segment, batch(0, timestamp=7000), batch(1, timestamp=7001))
    assert segment.first_timestamp == 7000
    assert offset_entries(segment) == [(1, 69)]


def test_empty_segment_that_is_reopened_and_cut_does_not_roll(tmp_path):
    clock = ManualClock()
    segment_in(tmp_path, clock=clock, segment_ms=300_000).seal()
    clock.advance(500)
    segment = segment_in(tmp_path, clock=clock, segment_ms=300_000)
    assert segment.truncate_to(57) == 0
    assert segment.waited_ms(-1) == 0
    assert not segment.is_index_full
    assert not segment.should_roll(100, -1, 100)
    clock.advance(300_001)
    assert not segment.should_roll(100, -1, 100)
    assert segment.should_roll(100, -1, INT_MAX + 200)
