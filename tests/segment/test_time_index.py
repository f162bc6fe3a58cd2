"""The time index: up to which offset all records are no newer than a time."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptIndex, IndexOffsetOverflow, InvalidArgument, InvalidOffset
from milepost.files import Disk, HandlePool
from milepost.segment.time_index import TimeIndex, TimestampOffset

MAX_ENTRIES = 30


@pytest.fixture
def time_index(tmp_path):
    def make(count=0, *, base=45, max_bytes=MAX_ENTRIES * 12):
        """`count` entries (10,55) (20,65) (30,75) …"""
        path = tmp_path / f"{base:020d}.timeindex"
        index = TimeIndex(HandlePool(Disk()), str(path), base, max_bytes)
        index.open_sealed(path.stat().st_size if path.exists() else 0)
        index.open_active()
        for number in range(1, count + 1):
            index.maybe_append(number * 10, base + number * 10)
        return index

    return make


def test_lookup_in_an_empty_index_knows_nothing(time_index):
    assert time_index().lookup(100) == TimestampOffset(-1, 45)


@pytest.mark.parametrize(
    ("time", "found"),
    [(9, (-1, 45)), (10, (10, 55)), (25, (20, 65)), (30, (30, 75)), (31, (30, 75)), (10_000, (290, 335))],
)
def test_lookup_finds_the_greatest_entry_that_is_not_newer(time_index, time, found):
    assert time_index(29).lookup(time) == TimestampOffset(*found)


def test_entry_is_twelve_bytes_timestamp_and_relative_offset(time_index, tmp_path):
    index = time_index(base=0)
    index.maybe_append(1526384718283, 28)
    index.seal()
    assert (tmp_path / "00000000000000000000.timeindex").read_bytes() == bytes.fromhex("00000163639e71cb 0000001c")


def test_entry_by_number_gives_the_pair(time_index):
    assert time_index(3).entry(2) == TimestampOffset(30, 75)


def test_entry_of_an_empty_index_is_refused(time_index):
    with pytest.raises(InvalidArgument, match="no slot 0; the index has 0 entries"):
        time_index().entry(0)


def test_last_entry_of_an_empty_index_is_no_time_at_the_base_offset(time_index):
    assert time_index().last_entry == TimestampOffset(-1, 45)


def test_truncate_to_the_offset_of_the_first_entry_leaves_nothing(time_index):
    index = time_index(29)
    index.truncate_to(55)
    assert index.entries == 0
    assert index.last_entry == TimestampOffset(-1, 45)


def test_truncate_goes_by_offset_and_keeps_what_lies_below(time_index):
    index = time_index(29)
    index.truncate_to(80)
    assert index.last_entry == TimestampOffset(30, 75)
    index.truncate_to(75)
    assert index.last_entry == TimestampOffset(20, 65)
    index.truncate_to(1000)
    assert index.entries == 2


def test_truncate_below_all_entries_leaves_nothing(time_index):
    index = time_index(5)
    index.truncate_to(45)
    assert index.entries == 0


def test_append_to_a_full_index_is_refused(time_index):
    index = time_index(29)
    with pytest.raises(InvalidArgument, match="full with 29 entries of at most 30, one kept for the roll"):
        index.maybe_append(1000, 1000)


def test_closing_entry_may_use_the_slot_that_was_kept_for_it(time_index):
    index = time_index(29)
    index.maybe_append(1000, 1000, closing=True)
    assert index.last_entry == TimestampOffset(1000, 1000)


def test_closing_entry_with_an_offset_below_the_last_is_refused(time_index):
    with pytest.raises(InvalidOffset, match="offset 334 is below the last entry's, 335"):
        time_index(29).maybe_append(10_000, 334, closing=True)


def test_timestamp_below_the_last_is_refused(time_index):
    with pytest.raises(InvalidArgument, match="timestamp 29 is below the last entry's, 30"):
        time_index(3).maybe_append(29, 1000)


def test_same_timestamp_is_passed_over_in_silence(time_index):
    index = time_index(3)
    index.maybe_append(30, 80)
    assert index.entries == 3


def test_newer_timestamp_at_the_same_offset_is_taken(time_index):
    index = time_index(3)
    index.maybe_append(31, 75)
    assert index.last_entry == TimestampOffset(31, 75)


def test_records_without_timestamp_leave_no_entry(time_index):
    index = time_index()
    index.maybe_append(-1, 50)
    assert index.entries == 0


def test_offset_that_does_not_fit_four_bytes_is_refused(time_index):
    with pytest.raises(IndexOffsetOverflow, match="does not fit four bytes relative to base 45"):
        time_index().maybe_append(10, 45 + 2**31)


def test_index_counts_as_full_one_entry_early(time_index):
    index = time_index(28)
    assert not index.is_full
    index.maybe_append(290, 335)
    assert index.is_full


@pytest.mark.parametrize("count", [0, 1, 29])
def test_order_of_a_sound_index_passes(time_index, count):
    index = time_index(count)
    assert index.is_full == (count == 29)
    index.check_order()


@pytest.mark.parametrize(
    "entries",
    [
        "000000000000000a 0000000a 0000000000000009 00000014",
        "000000000000000a 0000000a 000000000000000a 00000014",
        "000000000000000a 0000000a 000000000000000b 00000009",
        "ffffffffffffffff 0000000a",
        "000000000000000a ffffffff",
    ],
    ids=["time goes back", "time stands still", "offset goes back", "negative time", "negative offset"],
)
def test_order_that_is_broken_is_found(time_index, tmp_path, entries):
    (tmp_path / "00000000000000000045.timeindex").write_bytes(bytes.fromhex(entries))
    with pytest.raises(CorruptIndex, match="rebuild the index"):
        time_index().check_order()


def test_entries_are_there_after_a_restart(time_index):
    index = time_index(3)
    index.seal()
    assert time_index().last_entry == TimestampOffset(30, 75)
