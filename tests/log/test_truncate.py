"""Cutting a log at its end, or emptying it: segments, offsets, epochs and producers all go back together."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.errors import InvalidArgument
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from tests.log.making import NOW, idempotent, log_in, marker, names, offsets, produced, snapshots, transactional
from tests.segment.making import batch


def segments_of_three(tmp_path, **config):
    """Five segments with a batch of three records and 100 bytes each: bases 0, 3, 6, 9, 12."""
    log = log_in(tmp_path, segment_bytes=100, **config)
    for number in range(5):
        log.append_as_leader(produced(3, size=100), leader_epoch=number)
    return log


def epochs(log):
    return [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]


def test_segments_behind_the_offset_go_and_the_one_that_holds_it_is_cut(tmp_path):
    log = segments_of_three(tmp_path)
    assert log.truncate_to(7) is True
    assert log.segments.base_offsets() == [0, 3, 6]
    assert (log.end_offset, log.segments.active.base_offset, log.segments.active.size) == (7, 6, 0)
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    assert log.append_as_leader(produced(2), leader_epoch=9).first_offset == 7


def test_cut_at_a_segments_base_leaves_that_segment_empty(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_to(6)
    assert log.segments.base_offsets() == [0, 3, 6]
    assert (log.end_offset, log.segments.active.size) == (6, 0)
    log.append_as_leader(produced(3, size=100))
    assert offsets(log) == list(range(9))


def test_cut_to_zero_leaves_an_empty_log(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_to(0)
    assert (log.end_offset, log.segments.size_in_bytes, log.segments.base_offsets()) == (0, 0, [0])


@pytest.mark.parametrize("offset", [15, 16, 1000])
def test_cut_at_or_behind_the_end_removes_nothing(tmp_path, offset):
    log = segments_of_three(tmp_path)
    assert log.truncate_to(offset) is False
    assert (log.end_offset, log.segments.size_in_bytes) == (15, 500)


def test_cut_at_or_behind_the_end_forgets_an_epoch_that_wrote_nothing(tmp_path):
    log = segments_of_three(tmp_path)
    log.epochs.assign(7, 15)
    log.truncate_to(15)
    assert epochs(log) == [(0, 0), (1, 3), (2, 6), (3, 9), (4, 12)]
    log.epochs.assign(7, 15)
    log.truncate_to(20)
    assert epochs(log)[-1] == (4, 12)
    assert offsets(log) == list(range(15))


def test_cut_forgets_the_epochs_behind_it(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_to(9)
    assert epochs(log) == [(0, 0), (1, 3), (2, 6)]
    log.truncate_to(7)
    assert epochs(log) == [(0, 0), (1, 3), (2, 6)]


def test_negative_offset_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="cannot truncate to offset -1"):
        log_in(tmp_path).truncate_to(-1)


def test_cut_takes_recovery_point_high_watermark_and_log_start_with_it(tmp_path):
    log = segments_of_three(tmp_path)
    log.flush()
    log.update_high_watermark(15)
    log.increment_start(10)
    log.truncate_to(8)
    assert (log.recovery_point, log.high_watermark, log.start_offset, log.end_offset) == (8, 8, 8, 8)


def test_cut_below_the_first_segment_starts_the_log_anew_there(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(10, 3, timestamp=NOW))
    log.truncate_fully_and_start_at(10)
    log.append_as_follower(batch(10, 3, timestamp=NOW))
    assert log.truncate_to(5) is True
    assert (log.start_offset, log.end_offset, log.segments.base_offsets(), log.segments.size_in_bytes) == (5, 5, [5], 0)


def test_emptied_log_goes_on_at_the_given_offset(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_fully_and_start_at(10)
    assert (log.start_offset, log.end_offset, log.segments.base_offsets(), log.segments.size_in_bytes) == (10, 10, [10], 0)
    assert epochs(log) == []
    assert log.append_as_leader(produced(2)).first_offset == 10


@pytest.mark.parametrize("offset", [2, 100])
def test_emptied_log_has_all_its_marks_where_it_goes_on(tmp_path, offset):
    log = segments_of_three(tmp_path)
    log.update_high_watermark(1)
    log.truncate_fully_and_start_at(offset)
    assert (log.start_offset, log.last_stable_offset, log.high_watermark, log.end_offset) == (offset,) * 4


def test_emptied_log_may_start_below_its_end(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_fully_and_start_at(2, 1)
    assert (log.start_offset, log.end_offset) == (1, 2)


def test_emptied_log_is_empty_at_the_same_place_after_a_restart(tmp_path):
    log = segments_of_three(tmp_path)
    log.truncate_fully_and_start_at(29)
    log.close()
    again = log_in(tmp_path)
    assert (again.start_offset, again.end_offset, offsets(again)) == (29, 29, [])


def test_files_of_cut_segments_are_renamed_at_once_and_removed_after_the_delay(tmp_path):
    clock = ManualClock(NOW)
    log = segments_of_three(tmp_path, clock=clock, file_delete_delay_ms=60_000)
    log.truncate_to(3)
    assert {"6.log.deleted", "9.log.deleted", "12.log.deleted"} <= set(names(log, ".deleted"))
    clock.advance(59_999)
    log.scheduler.run_due()
    assert names(log, "12.log.deleted")
    clock.advance(1)
    log.scheduler.run_due()
    assert names(log, ".deleted") == []


def test_delayed_removal_leaves_new_segments_of_the_same_names_alone(tmp_path):
    clock = ManualClock(NOW)
    log = segments_of_three(tmp_path, clock=clock, file_delete_delay_ms=1000)
    for _ in range(2):
        log.truncate_to(3)
        for _ in range(3):
            log.append_as_leader(produced(3, size=100))
        clock.advance(400)
    assert offsets(log) == list(range(12))
    clock.advance(1000)
    log.scheduler.run_due()
    assert names(log, ".deleted") == []
    assert snapshots(log) == [3, 6, 9]
    assert offsets(log) == list(range(12))
    log.close()
    assert offsets(log_in(tmp_path)) == list(range(12))


def test_indexes_grow_again_after_a_cut(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=150)
    for number in range(10):
        log.append_as_leader(produced(size=100, timestamp=NOW + number))
    log.truncate_to(5)
    for number in range(5):
        log.append_as_leader(produced(size=100, timestamp=NOW + 100 + number))
    assert [log.find(offset=offset).position for offset in range(10)] == [100 * offset for offset in range(10)]
    assert log.find(time=NOW + 50).offset == 5
    assert log.find(time=NOW + 104).offset == 9
    log.close()
    again = log_in(tmp_path, mode="r", index_interval_bytes=150)
    assert [again.find(offset=offset).position for offset in range(10)] == [100 * offset for offset in range(10)]


# Producers.


def test_producer_state_and_snapshots_go_back_with_the_log(tmp_path):
    log = log_in(tmp_path)
    for number in range(3):
        log.append_as_leader(idempotent(number))
        log.roll()
    assert snapshots(log) == [1, 2, 3]
    for end_offset, left in [(2, [1, 2]), (1, [1]), (0, [])]:
        log.truncate_to(end_offset)
        assert snapshots(log) == left
        assert log.producers.map_end_offset == end_offset
        known = log.producers.last_entry(1)
        assert (known.last_sequence if known else None) == (end_offset - 1 if end_offset else None)


def test_sequence_that_was_cut_off_may_come_again(tmp_path):
    log = log_in(tmp_path)
    for number in range(5):
        log.append_as_leader(idempotent(number))
    log.truncate_to(3)
    answer = log.append_as_leader(idempotent(3))
    assert (answer.first_offset, answer.is_duplicate) == (3, False)
    assert log.append_as_leader(idempotent(2)).first_offset == 2


def test_transaction_whose_marker_is_cut_off_is_open_again(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 2))
    log.append_as_leader(marker(ControlType.ABORT), origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(produced())
    log.truncate_to(2)
    assert log.first_unstable_offset == 0
    assert log.segments.active.txn_index.transactions() == []


def test_transaction_that_is_cut_off_whole_is_forgotten(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(3))
    log.append_as_leader(transactional(0, 2))
    log.truncate_to(3)
    assert log.first_unstable_offset is None


def test_emptied_log_knows_no_producers_and_has_no_snapshots(tmp_path):
    log = log_in(tmp_path)
    for number in range(3):
        log.append_as_leader(idempotent(number))
        log.roll()
    log.truncate_fully_and_start_at(29)
    assert (snapshots(log), log.producers.map_end_offset, log.producers.producers) == ([], 29, {})
    assert len(log.segments) == 1


def test_cut_goes_on_from_the_state_of_a_middle_snapshot(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, 2))
    log.roll()
    log.append_as_leader(idempotent(2))
    log.append_as_leader(idempotent(3))
    log.append_as_leader(idempotent(4))
    log.truncate_to(4)
    assert log.producers.last_entry(1).last_sequence == 3
    assert log.append_as_leader(idempotent(4)).first_offset == 4


# Damage.


def test_cut_inside_a_hole_takes_the_hole_and_what_is_written_there_later_is_no_hole_after_a_restart(tmp_path):
    log = log_in(tmp_path)
    for number in range(6):
        log.append_as_leader(idempotent(2 * number, 2, size=100))
    log.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[250] ^= 1
    path.write_bytes(bytes(content))
    log = log_in(tmp_path)
    assert [hole.first_offset for hole in log.segments.active.log.holes] == [4]
    log.truncate_to(5)
    assert (log.end_offset, log.segments.active.size) == (5, 200)
    log.append_as_follower(batch(5, 2, size=100, timestamp=NOW) + batch(7, 2, size=100, timestamp=NOW))
    log.close()
    again = log_in(tmp_path)
    assert again.segments.active.log.holes == []
    assert offsets(again) == [0, 1, 2, 3, 5, 6, 7, 8]
