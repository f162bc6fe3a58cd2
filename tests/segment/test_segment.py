"""One segment: what an append writes into its four files, when it is full, and what is left when it is closed."""

from __future__ import annotations

import os
import random

import pytest

from milepost.clock import ManualClock
from milepost.config import LogConfig
from milepost.errors import SegmentOffsetOverflow
from milepost.files import Disk, HandlePool
from milepost.segment.segment import Segment
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction
from tests.segment.making import INT_MAX, append, batch, offset_entries, offsets_in, segment_in, time_entries

# What an append writes.


@pytest.mark.parametrize(
    ("size", "positions"),
    [
        (1500, [4500, 9000, 13500, 18000]),
        (4096, [8192, 16384, 24576, 32768, 40960, 49152]),
        (4097, [4097 * n for n in range(1, 14)]),
    ],
)
def test_entry_comes_when_more_than_the_interval_was_appended_since_the_last(tmp_path, size, positions):
    segment = segment_in(tmp_path)
    for offset in range(14):
        append(segment, batch(offset, size=size))
    assert offset_entries(segment) == [(position // size, position) for position in positions]


def test_interval_of_zero_gives_every_batch_an_entry_but_the_first(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0)
    append(segment, *[batch(3 * place, 3, size=100) for place in range(4)])
    assert offset_entries(segment) == [(5, 100), (8, 200), (11, 300)]


def test_hundred_single_records_with_interval_one_leave_99_entries_in_both_indexes(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=1)
    for offset in range(100):
        append(segment, batch(offset, timestamp=1000 + offset))
    assert (segment.offset_index.entries, segment.time_index.entries) == (99, 99)
    assert segment.largest_timestamp == 1099
    segment.seal()
    segment.close_handles()
    assert time_entries(segment_in(tmp_path))[-1] == (1099, 99)


SEVERAL = batch(2, 2, size=100, timestamp=5) + batch(4, 2, size=100, timestamp=9) + batch(6, 2, size=100, timestamp=7)


def test_append_of_several_batches_is_indexed_batch_by_batch(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=50)
    append(segment, batch(0, 2, size=100, timestamp=1), SEVERAL, batch(8, size=100, timestamp=10))
    assert offset_entries(segment) == [(3, 100), (5, 200), (7, 300), (8, 400)]
    assert time_entries(segment) == [(5, 3), (9, 5), (10, 8)]


def test_append_of_several_batches_gets_one_entry_in_the_old_profile(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=50, index_profile="per-append")
    append(segment, batch(0, 2, size=100, timestamp=1), SEVERAL, batch(8, size=100, timestamp=10))
    assert offset_entries(segment) == [(7, 100), (8, 400)]
    assert time_entries(segment) == [(9, 5), (10, 8)]


def test_entry_of_a_whole_append_still_leads_to_every_one_of_its_batches(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=50, index_profile="per-append")
    append(segment, batch(0, 2, size=100, timestamp=1), SEVERAL, batch(8, size=100, timestamp=10))
    assert [segment.locate(offset).position for offset in range(9)] == [0, 0, 100, 100, 200, 200, 300, 300, 400]


def test_largest_timestamp_is_that_of_its_earliest_batch(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0)
    for offset, timestamp in [(0, 5), (1, 9), (2, 9), (3, 7)]:
        append(segment, batch(offset, timestamp=timestamp))
    assert segment.max_so_far == TimestampOffset(9, 1)
    assert time_entries(segment) == [(9, 1)]


def test_batches_without_timestamp_leave_the_time_index_empty(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0)
    append(segment, batch(0, timestamp=-1), batch(1, timestamp=-1))
    segment.seal()
    segment.close_handles()
    assert (tmp_path / "00000000000000000000.timeindex").read_bytes() == b""


def test_count_of_bytes_starts_at_zero_when_the_segment_is_opened_again(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=150)
    append(segment, batch(0, size=100), batch(1, size=100))
    segment.seal()
    segment.close_handles()
    segment = segment_in(tmp_path, index_interval_bytes=150)
    append(segment, batch(2, size=100), batch(3, size=100), batch(4, size=100))
    assert offset_entries(segment) == [(4, 400)]


@pytest.mark.parametrize("offset", [INT_MAX + 41, 39, 0])
def test_offset_that_does_not_fit_the_segment_is_refused_before_anything_is_written(tmp_path, offset):
    segment = segment_in(tmp_path, 40)
    with pytest.raises(SegmentOffsetOverflow) as refused:
        append(segment, batch(offset))
    assert (refused.value.base_offset, refused.value.offset) == (40, offset)
    assert segment.size == 0


def test_largest_offset_that_fits_is_taken(tmp_path):
    segment = segment_in(tmp_path, 40)
    append(segment, batch(INT_MAX + 40))
    assert segment.next_offset() == INT_MAX + 41


class FailingDisk(Disk):
    """Writes to files of one kind fail while `broken` is set."""

    broken = ""

    def open(self, path, flags=os.O_RDONLY):
        fd = super().open(path, flags)
        self.paths = {**getattr(self, "paths", {}), fd: path}
        return fd

    def pwrite(self, fd, data, position):
        if self.broken and self.paths[fd].endswith(self.broken):
            raise OSError(28, "No space left on device")
        super().pwrite(fd, data, position)

    def pwritev(self, fd, buffers, position, size):
        if self.broken and self.paths[fd].endswith(self.broken):
            os.pwrite(fd, b"".join(buffers)[: size // 2], position)
            raise OSError(28, "No space left on device")
        super().pwritev(fd, buffers, position, size)


@pytest.mark.parametrize("profile", ["per-batch", "per-append"])
@pytest.mark.parametrize("broken", [".log", ".index", ".timeindex"])
def test_failed_write_to_any_file_leaves_the_segment_as_it_was(tmp_path, broken, profile):
    disk = FailingDisk()
    segment = segment_in(tmp_path, disk=disk, index_interval_bytes=50, index_profile=profile)
    append(segment, batch(0, size=100, timestamp=10), batch(1, size=100, timestamp=11))
    before = (offset_entries(segment), time_entries(segment), segment.max_so_far)
    disk.broken = broken
    several = batch(2, size=100, timestamp=12) + batch(3, size=100, timestamp=13) + batch(4, size=100, timestamp=14)
    with pytest.raises(OSError, match="No space left"):
        append(segment, several)
    disk.broken = ""
    assert (offset_entries(segment), time_entries(segment), segment.max_so_far) == before
    assert segment.size == (tmp_path / "00000000000000000000.log").stat().st_size == 200
    append(segment, batch(2, size=100, timestamp=12))
    assert offsets_in(segment) == [0, 1, 2]


# When it is full.


def test_segment_filled_to_the_byte_does_not_roll_and_one_byte_more_does(tmp_path):
    segment = segment_in(tmp_path, segment_bytes=300)
    append(segment, batch(0, size=200))
    assert not segment.should_roll(100, 1000, 1)
    assert segment.should_roll(101, 1000, 1)


@pytest.mark.parametrize(("timestamp", "rolls"), [(1000 + 500, False), (1000 + 501, True), (900, False), (2**62, True)])
def test_segment_rolls_by_the_time_between_its_first_batch_and_the_new_one(tmp_path, timestamp, rolls):
    clock = ManualClock()
    segment = segment_in(tmp_path, clock=clock, segment_ms=500)
    append(segment, batch(0, timestamp=1000), batch(1, timestamp=1400))
    clock.advance(1_000_000)
    assert segment.should_roll(100, timestamp, 2) is rolls


def test_segment_whose_first_batch_has_no_timestamp_rolls_by_the_clock(tmp_path):
    clock = ManualClock(50_000)
    segment = segment_in(tmp_path, clock=clock, segment_ms=500)
    append(segment, batch(0, timestamp=-1), batch(1, timestamp=1_000_000))
    assert not segment.should_roll(100, 9_000_000, 2)
    clock.advance(500)
    assert not segment.should_roll(100, 9_000_000, 2)
    clock.advance(1)
    assert segment.should_roll(100, -1, 2)


def test_empty_segment_does_not_roll_by_time(tmp_path):
    clock = ManualClock()
    segment = segment_in(tmp_path, clock=clock, segment_ms=500)
    clock.advance(1_000_000)
    assert not segment.should_roll(100, 9_000_000, 0)


def test_first_timestamp_is_read_from_the_file_after_a_restart(tmp_path):
    segment = segment_in(tmp_path)
    assert segment.first_timestamp is None
    append(segment, batch(0, timestamp=1000), batch(1, timestamp=5))
    assert segment.first_timestamp == 1000
    segment.seal()
    segment.close_handles()
    assert segment_in(tmp_path).first_timestamp == 1000


def test_offset_index_with_all_slots_used_makes_it_roll(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0, segment_index_bytes=24)
    append(segment, batch(0, timestamp=-1), batch(1, timestamp=-1), batch(2, timestamp=-1))
    assert not segment.should_roll(100, 5, 4)
    append(segment, batch(3, timestamp=-1))
    assert (segment.offset_index.entries, segment.time_index.entries) == (3, 0)
    assert segment.should_roll(100, 5, 4)


def test_time_index_with_all_slots_but_one_used_makes_it_roll(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0, segment_index_bytes=80)
    for offset in range(5):
        append(segment, batch(offset, timestamp=offset))
    assert not segment.should_roll(100, 5, 5)
    append(segment, batch(5, timestamp=5))
    assert (segment.offset_index.entries, segment.time_index.entries, segment.time_index.max_entries) == (5, 5, 6)
    assert segment.should_roll(100, 6, 6)


def test_offset_beyond_four_bytes_makes_it_roll(tmp_path):
    segment = segment_in(tmp_path, 40)
    assert not segment.should_roll(100, 1000, INT_MAX + 40)
    assert segment.should_roll(100, 1000, INT_MAX + 41)


def test_jitter_is_chosen_once_and_taken_off_the_time(tmp_path):
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    jitters = set()
    for seed in range(20):
        segment = Segment(HandlePool(Disk()), str(tmp_path), 0, config, ManualClock(), random.Random(seed))
        assert segment.max_segment_ms == 1000 - segment.jitter_ms
        jitters.add(segment.jitter_ms)
    assert len(jitters) > 10
    assert 0 <= min(jitters) < max(jitters) < 400


def test_jitter_beyond_the_segment_time_is_bounded_by_it(tmp_path):
    config = LogConfig(segment_ms=10, segment_jitter_ms=1_000_000)
    for seed in range(20):
        segment = Segment(HandlePool(Disk()), str(tmp_path), 0, config, ManualClock(), random.Random(seed))
        assert 0 < segment.max_segment_ms <= 10


# Files.


def test_new_segment_has_only_its_log_until_the_first_append(tmp_path):
    segment = segment_in(tmp_path, segment_index_bytes=67)
    assert sorted(os.listdir(tmp_path)) == ["00000000000000000000.log"]
    append(segment, batch(0))
    sizes = {name: (tmp_path / name).stat().st_size for name in os.listdir(tmp_path)}
    assert sizes == {"00000000000000000000.log": 69, "00000000000000000000.index": 64, "00000000000000000000.timeindex": 60}


def test_new_segment_removes_what_lies_under_its_names(tmp_path):
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (tmp_path / f"00000000000000000007{suffix}").write_bytes(b"left over")
    segment = Segment.create(HandlePool(Disk()), str(tmp_path), 7, LogConfig(), ManualClock(), random.Random(0))
    assert segment.size == 0
    assert os.listdir(tmp_path) == ["00000000000000000007.log"]


def test_closed_segment_has_trimmed_indexes_and_a_closing_time_entry(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=100)
    append(segment, *[batch(place, size=100, timestamp=place + 1) for place in range(4)])
    segment.seal()
    segment.close_handles()
    assert (tmp_path / "00000000000000000000.index").read_bytes() == bytes.fromhex("00000002 000000c8")
    assert (tmp_path / "00000000000000000000.timeindex").read_bytes() == bytes.fromhex(
        "0000000000000003 00000002 0000000000000004 00000003"
    )


def test_closing_again_adds_nothing(tmp_path):
    segment = segment_in(tmp_path)
    append(segment, batch(0, timestamp=5))
    segment.seal()
    segment.close_handles()
    segment_in(tmp_path).seal()
    assert time_entries(segment_in(tmp_path)) == [(5, 0)]


def test_preallocated_segment_is_written_read_and_trimmed_when_it_closes(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    segment = segment_in(tmp_path, preallocate=True, segment_bytes=512 << 20)
    assert path.stat().st_size == 536_870_912
    append(segment, batch(0, 2, size=100), batch(2, 2, size=100))
    assert segment.read(3, 1000).first.position == 100
    assert segment.size == 200
    segment.seal()
    segment.close_handles()
    assert path.stat().st_size == 200
    assert offsets_in(segment_in(tmp_path)) == [0, 1, 2, 3]


def test_renamed_segment_goes_on_being_readable(tmp_path):
    segment = segment_in(tmp_path, index_interval_bytes=0)
    append(segment, batch(0), batch(1))
    segment.txn_index.append(AbortedTransaction(1, 0, 1, 0))
    segment.seal()
    segment.change_suffix(".deleted")
    assert sorted(os.listdir(tmp_path)) == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
        "00000000000000000000.txnindex.deleted",
    ]
    segment.close_handles()
    assert segment.locate(1).position == 69
    assert offset_entries(segment) == [(1, 69)]
    segment.change_suffix("")
    assert "00000000000000000000.log" in os.listdir(tmp_path)


def test_deleted_segment_leaves_no_file(tmp_path):
    segment = segment_in(tmp_path)
    append(segment, batch(0))
    segment.txn_index.append(AbortedTransaction(1, 0, 0, 0))
    segment.delete()
    assert os.listdir(tmp_path) == []
