"""Reading by offset: bounds, sizes, segments, and lookups that show their steps."""

from __future__ import annotations

import os

import pytest

from milepost.errors import CorruptRecord, InvalidArgument, OffsetOutOfRange
from milepost.log.reading import Isolation, OffsetMetadata
from milepost.segment.trace import IndexSearch, LogScan, SegmentChoice
from tests.log.making import NOW, log_in, offsets, produced
from tests.segment.making import batch


def segments_of_three(tmp_path, count=5, **config):
    """Batches of three records and 100 bytes, one per segment: bases 0, 3, 6, …"""
    log = log_in(tmp_path, segment_bytes=100, **config)
    for number in range(count):
        log.append_as_leader(produced(3, size=100, timestamp=NOW + number))
    log.update_high_watermark(log.end_offset)
    return log


# Where a read starts and ends.


def test_every_offset_below_the_end_is_readable(tmp_path):
    log = segments_of_three(tmp_path)
    for offset in range(15):
        [found] = log.read(offset, isolation="log end").batches
        assert found.base_offset <= offset <= found.last_offset


def test_read_starts_at_a_batch_and_tells_where_that_lies(tmp_path):
    log = log_in(tmp_path)
    for _ in range(4):
        log.append_as_leader(produced(3, size=100))
    fetched = log.read(7, isolation="log end")
    assert fetched.start == OffsetMetadata(7, 0, 200)
    assert [found.base_offset for found in fetched.batches] == [6, 9]


def test_read_never_spans_segments(tmp_path):
    fetched = segments_of_three(tmp_path).read(0, 1 << 20)
    assert fetched.size == 100


@pytest.mark.parametrize("offset", [-1, 16, 100])
def test_read_outside_the_log_is_refused(tmp_path, offset):
    log = segments_of_three(tmp_path)
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is outside 0 to 15") as refused:
        log.read(offset)
    assert refused.value.code == 1


def test_read_below_the_log_start_is_refused_even_if_the_bytes_are_there(tmp_path):
    log = segments_of_three(tmp_path)
    log.increment_start(4)
    with pytest.raises(OffsetOutOfRange, match="offset 3 is outside 4 to 15"):
        log.read(3)
    assert log.read(4).batches[0].base_offset == 3


def test_read_at_the_end_is_empty(tmp_path):
    fetched = segments_of_three(tmp_path).read(15)
    assert (fetched.size, fetched.data, fetched.batches) == (0, b"", [])
    assert fetched.start == OffsetMetadata(15, 12, 100)
    assert fetched.aborted is None


def test_read_at_and_above_the_high_watermark_is_empty_and_tells_its_place(tmp_path):
    log = log_in(tmp_path)
    for _ in range(3):
        log.append_as_leader(produced(3, size=100))
    log.update_high_watermark(6)
    assert log.read(6).start == OffsetMetadata(6, 0, 200)
    assert log.read(8).start == OffsetMetadata(8, 0, 200)
    assert (log.read(6).size, log.read(8).size) == (0, 0)


def test_bound_inside_a_batch_leaves_the_whole_batch_out(tmp_path):
    log = log_in(tmp_path)
    for _ in range(3):
        log.append_as_leader(produced(3, size=100))
    log.update_high_watermark(5)
    assert log.read(0).size == 100
    log.update_high_watermark(6)
    assert log.read(0).size == 200


@pytest.mark.parametrize(
    ("max_bytes", "min_one", "size", "incomplete"),
    [
        (0, False, 0, True),
        (1, False, 1, True),
        (1, True, 100, False),
        (100, True, 100, False),
        (150, True, 150, False),
        (100_000, True, 200, False),
    ],
)
def test_size_limit_holds_but_for_a_first_batch_that_is_wanted_whole(tmp_path, max_bytes, min_one, size, incomplete):
    log = log_in(tmp_path)
    log.append_as_leader(produced(size=100))
    log.append_as_leader(produced(size=100))
    fetched = log.read(0, max_bytes, Isolation.LOG_END, min_one)
    assert (fetched.size, fetched.first_entry_incomplete) == (size, incomplete)
    assert len(fetched.batches) == size // 100


def test_negative_size_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="cannot read -1 bytes"):
        log_in(tmp_path).read(0, -1)


def test_read_in_a_gap_starts_at_the_next_batch_also_in_the_next_segment(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0, 2, timestamp=NOW))
    log.append_as_follower(batch(10, 2, timestamp=NOW))
    log.roll(20)
    log.append_as_follower(batch(20, timestamp=NOW))
    log.update_high_watermark(log.end_offset)
    assert log.read(5).batches[0].base_offset == 10
    assert log.read(15).batches[0].base_offset == 20


def test_read_of_what_was_cut_from_a_segment_goes_on_in_the_next(tmp_path):
    log = segments_of_three(tmp_path, 2)
    log.segments.first.truncate_to(0)
    assert log.read(1).batches[0].base_offset == 3


def test_empty_log_reads_as_empty(tmp_path):
    log = log_in(tmp_path)
    assert log.read(0).size == 0
    assert list(log.records()) == []


def test_records_come_over_all_segments_between_two_offsets(tmp_path):
    log = segments_of_three(tmp_path)
    assert [record.offset for record in log.records()] == list(range(15))
    assert [record.offset for record in log.records(4, 10)] == [4, 5, 6, 7, 8, 9]
    assert [record.offset for record in log.records(13)] == [13, 14]
    assert list(log.records(15)) == []


def test_record_larger_than_any_read_is_read_whole(tmp_path):
    log = log_in(tmp_path, max_message_bytes=1 << 23)
    log.append_as_leader(produced(size=3 << 20))
    log.append_as_leader(produced())
    assert offsets(log) == [0, 1]


# Watermarks.


def test_high_watermark_stays_inside_the_log(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(10))
    assert log.update_high_watermark(7) == 7
    assert log.update_high_watermark(100) == 10
    log.increment_start(5)
    assert log.update_high_watermark(2) == 5
    with pytest.raises(InvalidArgument, match="high watermark -1 is negative"):
        log.update_high_watermark(-1)


def test_append_does_not_move_the_high_watermark(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(10))
    assert log.high_watermark == 0
    assert list(log.records()) == []


def test_log_start_beyond_the_high_watermark_is_refused(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(30))
    log.update_high_watermark(25)
    with pytest.raises(OffsetOutOfRange, match="cannot start at 26, above the high watermark 25"):
        log.increment_start(26)
    assert log.increment_start(25) is True
    assert log.increment_start(25) is False


# Lookups.


def test_lookup_finds_the_record_or_the_next_one(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0, 2, timestamp=NOW, leader_epoch=3))
    log.append_as_follower(batch(10, 2, timestamp=NOW, leader_epoch=4, size=100))
    found = log.find(offset=1)
    assert (found.offset, found.timestamp, found.segment, found.position, found.leader_epoch) == (1, NOW, 0, 0, 3)
    assert (log.find(offset=5).offset, log.find(offset=5).leader_epoch) == (10, 4)
    assert log.find(offset=12) is None
    assert log.find(offset=11).steps == []


@pytest.mark.parametrize("question", [{}, {"offset": 1, "time": 1}])
def test_lookup_takes_an_offset_or_a_time(tmp_path, question):
    with pytest.raises(InvalidArgument, match="an offset or a time, one of the two"):
        log_in(tmp_path).find(**question)


def test_traced_lookup_shows_segment_index_and_walk(tmp_path):
    log = log_in(tmp_path, segment_bytes=500, index_interval_bytes=150)
    for number in range(12):
        log.append_as_leader(produced(2, size=100, timestamp=NOW + number))
    choice, search, scan = log.find(offset=17, trace=True).steps
    assert isinstance(choice, SegmentChoice)
    assert (choice.rule, choice.base_offset, choice.next_base_offset) == ("floor", 10, 20)
    assert isinstance(search, IndexSearch)
    assert (search.target, search.entry) == (7, (5, 200))
    assert isinstance(scan, LogScan)
    assert (scan.start_position, scan.position, scan.batches_skipped) == (200, 300, 1)


def test_explanation_has_its_steps_also_when_nothing_is_found(tmp_path):
    log = segments_of_three(tmp_path, 2)
    found, steps = log.explain(offset=99)
    assert found is None
    assert steps


# Damage.


@pytest.fixture
def with_hole(tmp_path):
    """Six batches of two records and 100 bytes; the third, offsets 4 and 5, is damaged."""
    log = log_in(tmp_path)
    for _ in range(6):
        log.append_as_leader(produced(2, size=100))
    log.close()
    os.unlink(tmp_path / ".kafka_cleanshutdown")
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[250] ^= 1
    path.write_bytes(bytes(content))
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    return log_in(tmp_path)


def test_read_up_to_a_hole_ends_before_it_and_inside_it_is_refused(with_hole):
    assert with_hole.read(0).size == 200
    for offset in (4, 5):
        with pytest.raises(CorruptRecord, match="seek to 6") as refused:
            with_hole.read(offset)
        assert refused.value.code == 2
    assert [found.base_offset for found in with_hole.read(6).batches] == [6, 8, 10]


@pytest.mark.parametrize("high_watermark", [4, 5, 6])
def test_bound_inside_a_hole_does_not_disturb_reads_below_it(with_hole, high_watermark):
    with_hole.high_watermark = high_watermark
    assert with_hole.read(0).size == 200
    assert with_hole.read(2).size == 100
    assert with_hole.read(high_watermark).size == 0


def test_walk_over_records_stops_at_the_hole_with_a_sentence(with_hole):
    got = []
    with pytest.raises(CorruptRecord, match="offsets 4 to 5 are lost here"):
        for record in with_hole.records():
            got.append(record.offset)
    assert got == [0, 1, 2, 3]
    assert [record.offset for record in with_hole.records(6)] == [6, 7, 8, 9, 10, 11]
