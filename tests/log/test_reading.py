"""Reading by offset: bounds, sizes, segments, transactions, and lookups that show their steps."""

from __future__ import annotations

import os

import pytest

from milepost.errors import CorruptRecord, InvalidArgument, OffsetOutOfRange
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.reading import Isolation, OffsetMetadata
from milepost.record.control import ControlType
from milepost.segment.trace import IndexSearch, LogScan, SegmentChoice
from tests.log.making import NOW, log_in, marker, offsets, produced, transactional
from tests.segment.making import batch


def end(log, producer_id, kind=ControlType.COMMIT, **fields):
    return log.append_as_leader(marker(kind, producer_id=producer_id, **fields), origin=AppendOrigin.COORDINATOR)


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


# Transactions.


def test_last_stable_offset_moves_when_the_high_watermark_passes_the_marker(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 2, producer_id=1))
    log.append_as_leader(transactional(0, 2, producer_id=2))
    log.append_as_leader(produced(4))
    end(log, 1)
    log.update_high_watermark(8)
    assert (log.first_unstable_offset, log.last_stable_offset) == (0, 0)
    assert log.read(0, isolation="committed").size == 0
    log.update_high_watermark(9)
    assert log.last_stable_offset == 2
    end(log, 2)
    assert log.last_stable_offset == 2
    log.update_high_watermark(9)
    assert log.last_stable_offset == 2
    log.update_high_watermark(10)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 10)
    assert offsets(log, "committed") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_first_unstable_offset_is_that_of_the_first_open_transaction(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(3))
    assert log.first_unstable_offset is None
    log.append_as_leader(transactional(0, 2))
    assert log.first_unstable_offset == 3
    log.append_as_leader(transactional(2, 2))
    log.append_as_leader(produced(3))
    assert log.first_unstable_offset == 3
    end(log, 1)
    log.update_high_watermark(10)
    assert log.first_unstable_offset == 3
    log.update_high_watermark(11)
    assert log.first_unstable_offset is None


def test_open_transaction_below_the_log_start_is_unstable_from_the_start_on(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 5, producer_id=1))
    log.append_as_leader(produced(3))
    log.roll()
    log.append_as_leader(transactional(5, 5, producer_id=1))
    log.update_high_watermark(13)
    assert log.first_unstable_offset == 0
    log.increment_start(5)
    assert log.first_unstable_offset == 5
    log.increment_start(8)
    log.delete_segments([log.segments.first])
    assert log.first_unstable_offset == 8


def four_producers(tmp_path, **config):
    """Kafka's own mix: 90 records, of which producers 1 and 2 abort and 3 and 4 commit."""
    log = log_in(tmp_path, **config)
    sequences = {1: 0, 2: 0, 3: 0, 4: 0}

    def send(producer_id, count):
        log.append_as_leader(transactional(sequences[producer_id], count, producer_id=producer_id))
        sequences[producer_id] += count

    send(1, 5)  # 0-4
    log.append_as_leader(produced(3))  # 5-7
    send(2, 2)  # 8-9
    send(1, 4)  # 10-13
    send(3, 3)  # 14-16
    log.append_as_leader(produced(9))  # 17-25
    send(3, 3)  # 26-28
    end(log, 1, ControlType.ABORT)  # 29
    log.append_as_leader(produced(6))  # 30-35
    send(4, 15)  # 36-50
    end(log, 3)  # 51
    send(4, 8)  # 52-59
    send(2, 9)  # 60-68
    log.append_as_leader(produced(5))  # 69-73
    end(log, 2, ControlType.ABORT)  # 74
    log.append_as_leader(produced(4))  # 75-78
    send(4, 10)  # 79-88
    end(log, 4)  # 89
    return log


def test_aborted_transactions_are_indexed_with_the_offset_that_was_stable_then(tmp_path):
    log = four_producers(tmp_path)
    indexed = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in log.segments.active.txn_index.transactions()
    ]
    assert indexed == [(1, 0, 29, 8), (2, 8, 74, 36)]


def test_unstable_offset_follows_the_high_watermark_over_many_transactions(tmp_path):
    log = four_producers(tmp_path)
    for high_watermark, unstable in [(0, 0), (29, 0), (30, 8), (74, 8), (75, 36), (89, 36), (90, None)]:
        log.update_high_watermark(high_watermark)
        assert log.first_unstable_offset == unstable


def test_reader_of_committed_data_gets_neither_aborted_nor_undecided_records(tmp_path):
    log = four_producers(tmp_path)
    log.update_high_watermark(75)
    committed = [5, 6, 7, *range(14, 29), *range(30, 36)]
    assert offsets(log, "committed") == committed
    log.update_high_watermark(90)
    committed += [*range(36, 51), *range(52, 60), *range(69, 74), *range(75, 89)]
    assert offsets(log, "committed") == committed


def test_reader_of_everything_gets_aborted_records_but_never_markers(tmp_path):
    log = four_producers(tmp_path)
    log.update_high_watermark(90)
    assert offsets(log, "uncommitted") == [offset for offset in range(90) if offset not in (29, 51, 74, 89)]


def test_answer_is_the_same_over_many_segments_and_after_a_restart(tmp_path):
    whole = four_producers(tmp_path / "whole")
    whole.update_high_watermark(90)
    log = four_producers(tmp_path / "cut", segment_bytes=500, index_interval_bytes=100)
    assert len(log.segments) > 3
    log.update_high_watermark(90)
    assert offsets(log, "committed") == offsets(whole, "committed")
    log.close()
    assert offsets(log_in(tmp_path / "cut", mode="r"), "committed") == offsets(whole, "committed")


def test_list_of_aborted_transactions_comes_with_a_committed_read_only(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 3))
    log.roll()
    log.append_as_leader(transactional(3, 3))
    end(log, 1, ControlType.ABORT)
    log.update_high_watermark(7)
    [aborted] = log.read(0, isolation="committed").aborted
    assert (aborted.producer_id, aborted.first_offset) == (1, 0)
    assert log.read(0).aborted is None
    assert log.read(7, isolation="committed").aborted == []


def test_single_aborted_record_is_dropped_at_every_edge(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0))
    end(log, 1, ControlType.ABORT)
    log.append_as_leader(produced())
    log.update_high_watermark(3)
    assert offsets(log, "committed") == [2]
    assert [record.offset for record in log.records(0, 2, "committed")] == []
    assert [record.offset for record in log.records(1, 3, "committed")] == [2]


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
