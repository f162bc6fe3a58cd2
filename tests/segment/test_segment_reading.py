"""Reading a segment by offset and by time."""

from __future__ import annotations

import os

import pytest

from milepost.codec.compression import Codec
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.segment.trace import IndexSearch, LogScan, Trace
from tests.segment.making import append, batch, segment_in

# Reading.


@pytest.fixture
def fifty(tmp_path):
    """Base 40, offsets 50-51 and 60-61 in batches of 100 bytes."""
    segment = segment_in(tmp_path, 40)
    append(segment, batch(50, 2, size=100), batch(60, 2, size=100))
    return segment


def test_read_of_an_empty_segment_finds_nothing(tmp_path):
    assert segment_in(tmp_path, 40).read(40, 300) is None


@pytest.mark.parametrize(("offset", "position"), [(40, 0), (48, 0), (50, 0), (51, 0), (52, 100), (60, 100), (61, 100)])
def test_read_starts_at_the_batch_that_holds_the_offset_or_the_next_one(fifty, offset, position):
    read = fifty.read(offset, 300)
    assert read.first.position == position
    assert read.data.size == 200 - position


def test_read_behind_the_last_offset_finds_nothing(fifty):
    assert fifty.read(62, 300) is None


@pytest.mark.parametrize(
    ("max_bytes", "min_one", "size", "incomplete"),
    [
        (0, False, 0, True),
        (1, False, 1, True),
        (150, False, 150, False),
        (0, True, 100, False),
        (1, True, 100, False),
        (500, True, 200, False),
    ],
)
def test_read_is_bounded_by_size_but_for_a_first_batch_that_is_wanted_whole(fifty, max_bytes, min_one, size, incomplete):
    read = fifty.read(50, max_bytes, min_one=min_one)
    assert (read.data.size, read.first_entry_incomplete) == (size, incomplete)


@pytest.mark.parametrize(("max_position", "size"), [(200, 200), (100, 100), (0, 0)])
def test_read_stops_at_the_position_of_the_bound(fifty, max_position, size):
    assert fifty.read(50, 300, max_position).data.size == size


def test_read_whose_bound_lies_before_its_start_is_empty(fifty):
    assert fifty.read(60, 300, 50).data.size == 0


def test_next_offset_is_the_base_of_an_empty_segment_and_one_past_the_last_record(tmp_path):
    segment = segment_in(tmp_path, 40)
    assert segment.next_offset() == 40
    append(segment, batch(50, 3))
    assert segment.next_offset() == 53


def test_locate_notes_what_it_did(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=250)
    append(segment, *[batch(2 * place, 2, size=100) for place in range(10)])
    trace = Trace()
    assert segment.locate(9, trace).position == 400
    search, scan = trace.steps
    assert isinstance(search, IndexSearch)
    assert search.entry == (7, 300)
    assert isinstance(scan, LogScan)
    assert (scan.start_position, scan.position, scan.bytes_skipped, scan.batches_skipped) == (300, 400, 100, 1)


# By time.


def timed(tmp_path, codec=Codec.NONE):
    """Offsets 0-2 at 10, 30, 20; 3-5 at 40, 60, 50; …: five batches of three, the middle record newest."""
    segment = segment_in(tmp_path, index_interval_bytes=0)
    for place in range(5):
        times = [30 * place + 10, 30 * place + 30, 30 * place + 20]
        append(segment, build_batch([Record(3 * place + n, times[n], b"k", b"v") for n in range(3)], codec=codec))
    return segment


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    ("time", "answer"),
    [(0, (0, 10)), (10, (0, 10)), (11, (1, 30)), (30, (1, 30)), (31, (3, 40)), (41, (4, 60)), (150, (13, 150)), (151, None)],
)
def test_lookup_by_time_ends_at_the_first_record_that_is_not_older(tmp_path, codec, time, answer):
    found = timed(tmp_path, codec).find_by_timestamp(time, 0)
    assert (found and (found.offset, found.timestamp)) == answer


def test_lookup_by_time_does_not_go_below_the_log_start(tmp_path):
    found = timed(tmp_path).find_by_timestamp(0, 5)
    assert (found.offset, found.timestamp) == (5, 50)


def test_lookup_by_time_notes_time_index_offset_index_and_walk(tmp_path):
    trace = Trace()
    found = timed(tmp_path).find_by_timestamp(75, 0, trace)
    assert (found.offset, found.timestamp) == (7, 90)
    times, offsets, scan = trace.steps
    assert (times.entry_size, times.entry) == (12, (60, 5))
    assert (offsets.entry_size, offsets.target) == (8, 5)
    assert (scan.batches_skipped, scan.records_rejected) == (1, 1)


def test_segment_without_timestamps_is_as_old_as_its_file(tmp_path):
    segment = segment_in(tmp_path)
    append(segment, batch(0, timestamp=-1))
    os.utime(tmp_path / "00000000000000000000.log", (1700000000.25, 1700000000.25))
    assert segment.largest_timestamp == 1700000000250
