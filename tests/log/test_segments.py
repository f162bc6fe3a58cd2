"""The sorted list of segments: lookups by base offset."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.log.segments import LogSegments
from tests.segment.making import append, batch, segment_in


@pytest.fixture
def segments(tmp_path):
    """Segments at 0, 10, 20 and 50."""
    found = LogSegments()
    for base in (20, 0, 50, 10):
        found.add(segment_in(tmp_path, base))
    return found


def base(segment):
    return None if segment is None else segment.base_offset


def bases(found):
    return [segment.base_offset for segment in found]


def test_segments_are_in_order_however_they_were_added(segments):
    assert bases(segments) == segments.base_offsets() == [0, 10, 20, 50]
    assert (base(segments.first), base(segments.active), len(segments)) == (0, 50, 4)
    assert 10 in segments
    assert 11 not in segments


@pytest.mark.parametrize(("offset", "found"), [(-1, None), (0, 0), (9, 0), (10, 10), (49, 20), (50, 50), (2**62, 50)])
def test_floor_is_the_greatest_base_not_above(segments, offset, found):
    assert base(segments.floor(offset)) == found


@pytest.mark.parametrize(("offset", "found"), [(-1, 0), (0, 10), (9, 10), (10, 20), (49, 50), (50, None), (2**62, None)])
def test_higher_is_the_least_base_above(segments, offset, found):
    assert base(segments.higher(offset)) == found


@pytest.mark.parametrize(("offset", "found"), [(-1, None), (0, None), (9, 0), (10, 0), (49, 20), (50, 20), (2**62, 50)])
def test_lower_is_the_greatest_base_below(segments, offset, found):
    assert base(segments.lower(offset)) == found


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 60, [0, 10, 20, 50]),
        (5, 15, [0, 10]),
        (10, 20, [10]),
        (10, 21, [10, 20]),
        (12, 12, []),
        (60, 70, [50]),
        (20, 50, [20]),
    ],
)
def test_segments_between_two_offsets_are_those_that_may_hold_them(segments, start, end, found):
    assert bases(segments.between(start, end)) == found


def test_range_that_ends_before_it_starts_is_refused(segments):
    with pytest.raises(InvalidArgument, match="from offset 20 to 10: the start lies behind the end"):
        segments.between(20, 10)


@pytest.mark.parametrize(("offset", "found"), [(0, [0, 10, 20, 50]), (15, [10, 20, 50]), (99, [50]), (-5, [0, 10, 20, 50])])
def test_segments_from_an_offset_start_with_the_one_that_holds_it(segments, offset, found):
    assert bases(segments.from_offset(offset)) == found


def test_segment_at_a_known_base_takes_the_others_place(segments, tmp_path):
    (tmp_path / "other").mkdir()
    other = segment_in(tmp_path / "other", 10)
    segments.add(other)
    assert segments.floor(10) is other
    assert segments.base_offsets() == [0, 10, 20, 50]


def test_removed_segment_is_gone(segments):
    segments.remove(10)
    assert segments.base_offsets() == [0, 20, 50]
    assert base(segments.floor(15)) == 0


def test_segments_may_be_removed_while_they_are_walked(segments):
    for segment in segments:
        segments.remove(segment.base_offset)
    assert len(segments) == 0
    assert segments.floor(5) is None


def test_next_base_is_that_of_the_segment_behind(segments):
    assert segments.next_base(segments.first) == 10
    assert segments.next_base(segments.active) is None


def test_size_is_that_of_all_logs_together(segments):
    append(segments.first, batch(0, size=100))
    append(segments.active, batch(50, size=150))
    assert segments.size_in_bytes == 250


def test_cleared_list_is_empty(segments):
    segments.clear()
    assert (len(segments), segments.base_offsets()) == (0, [])
