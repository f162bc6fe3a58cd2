"""The offset index: entries (last offset of a batch, its position), found by the greatest not past the target."""

from __future__ import annotations

import pytest

from milepost.errors import IndexOffsetOverflow, InvalidArgument, InvalidOffset
from milepost.files import Disk, HandlePool
from milepost.segment.offset_index import OffsetIndex, OffsetPosition

# Appendix A of the specification: the entries that the articles print for the topic log.
ARTICLE = [(6, 156), (14, 459), (22, 656), (26, 838), (31, 1050)]


@pytest.fixture
def offset_index(tmp_path):
    def make(base=0, entries=(), max_bytes=10_485_760):
        path = tmp_path / f"{base:020d}.index"
        index = OffsetIndex(HandlePool(Disk()), str(path), base, max_bytes)
        index.open_sealed(path.stat().st_size if path.exists() else 0)
        index.open_active()
        for offset, position in entries:
            index.append(offset, position)
        return index

    return make


def entries(index):
    return [(entry.offset, entry.position) for entry in map(index.entry, range(index.entries))]


@pytest.mark.parametrize("target", [45, 46, 1000, 2**40])
def test_lookup_in_an_empty_index_starts_at_the_base_offset(offset_index, target):
    assert offset_index(base=45).lookup(target) == OffsetPosition(45, 0)


def test_lookup_between_two_entries_starts_at_the_lower_one(offset_index):
    assert offset_index(entries=ARTICLE).lookup(23) == OffsetPosition(22, 656)


def test_lookup_of_an_entry_finds_it_and_beyond_the_last_finds_the_last(offset_index):
    index = offset_index(entries=ARTICLE)
    assert index.lookup(26) == OffsetPosition(26, 838)
    assert index.lookup(31) == OffsetPosition(31, 1050)
    assert index.lookup(1000) == OffsetPosition(31, 1050)


def test_lookup_below_the_first_entry_starts_at_the_base_offset(offset_index):
    assert offset_index(entries=ARTICLE).lookup(5) == OffsetPosition(0, 0)


def test_entry_is_eight_bytes_relative_offset_and_position(offset_index, tmp_path):
    index = offset_index(base=251, entries=[(251 + 22, 656)])
    index.seal()
    assert (tmp_path / "00000000000000000251.index").read_bytes() == bytes.fromhex("00000016 00000290")


def test_entry_by_number_gives_the_pair(offset_index):
    index = offset_index(entries=ARTICLE)
    assert index.entry(0) == OffsetPosition(6, 156)
    assert index.entry(3) == OffsetPosition(26, 838)


@pytest.mark.parametrize("slot", [-1, 5, 100])
def test_entry_outside_the_index_is_refused(offset_index, slot):
    with pytest.raises(InvalidArgument, match=f"no slot {slot}; the index has 5 entries"):
        offset_index(entries=ARTICLE).entry(slot)


def test_append_to_a_full_index_is_refused(offset_index):
    index = offset_index(entries=[(1, 0), (2, 10), (3, 20)], max_bytes=24)
    assert index.is_full
    with pytest.raises(InvalidArgument, match="full with 3 entries of at most 3; roll the segment first"):
        index.append(4, 30)


@pytest.mark.parametrize("offset", [51, 50, 45])
def test_append_at_or_below_the_last_offset_is_refused(offset_index, offset):
    index = offset_index(base=45, entries=[(51, 0)])
    with pytest.raises(InvalidOffset, match=f"offset {offset} is not above the last entry, 51"):
        index.append(offset, 1)
    assert entries(index) == [(51, 0)]


@pytest.mark.parametrize("offset", [45 + 2**31, 44, 0])
def test_offset_that_does_not_fit_four_bytes_is_refused(offset_index, offset):
    with pytest.raises(IndexOffsetOverflow, match="does not fit four bytes relative to base 45"):
        offset_index(base=45).append(offset, 0)


def test_largest_relative_offset_fits(offset_index):
    index = offset_index(base=45, entries=[(45 + 2**31 - 1, 2**31 - 1)])
    assert index.lookup(45 + 2**31 - 1) == OffsetPosition(2147483692, 2147483647)


def test_base_offset_itself_may_be_the_first_entry(offset_index):
    assert offset_index(base=45, entries=[(45, 0), (46, 10)]).lookup(45) == OffsetPosition(45, 0)


def test_upper_bound_in_an_empty_index_is_unknown(offset_index):
    assert offset_index().upper_bound(OffsetPosition(0, 0), 5) is None


@pytest.mark.parametrize(
    ("start", "size", "bound"),
    [
        ((45, 0), 5, 46),
        ((45, 0), 10, 46),
        ((45, 0), 22, 47),
        ((45, 0), 23, 47),
        ((46, 10), 24, 48),
        ((48, 37), 1, None),
        ((45, 0), 200, None),
        ((46, 10), 200, None),
    ],
)
def test_upper_bound_is_the_first_entry_behind_the_bytes(offset_index, start, size, bound):
    index = offset_index(base=45, entries=[(45, 0), (46, 10), (47, 23), (48, 37)])
    found = index.upper_bound(OffsetPosition(*start), size)
    assert (found and found.offset) == bound


def test_truncate_keeps_what_lies_below_and_appends_continue_there(offset_index):
    index = offset_index(entries=[(offset, offset) for offset in range(1, 10)])
    index.truncate_to(12)
    assert entries(index)[-1] == (9, 9)
    index.append(10, 10)
    index.truncate_to(10)
    assert entries(index)[-1] == (9, 9)
    index.truncate_to(9)
    assert entries(index)[-1] == (8, 8)
    index.append(9, 9)
    index.truncate_to(5)
    assert entries(index)[-1] == (4, 4)
    assert index.last_offset == 4
    index.append(5, 5)
    assert entries(index) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_truncate_below_the_first_entry_leaves_nothing(offset_index):
    index = offset_index(base=5, entries=[(7, 10), (9, 20)])
    index.truncate_to(6)
    assert entries(index) == []
    assert index.last_offset == 5
    index.append(6, 3)
    assert entries(index) == [(6, 3)]


def test_truncate_between_two_entries_keeps_the_lower(offset_index):
    index = offset_index(entries=ARTICLE)
    index.truncate_to(25)
    assert entries(index) == ARTICLE[:3]


def test_entries_are_there_after_a_restart(offset_index):
    index = offset_index(entries=ARTICLE)
    index.seal()
    again = offset_index()
    assert entries(again) == ARTICLE
    again.append(40, 1200)
    assert again.lookup(100) == OffsetPosition(40, 1200)
