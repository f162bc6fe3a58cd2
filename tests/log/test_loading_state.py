"""What a start learns again of leader epochs, producers and transactions."""

from __future__ import annotations

import shutil

import pytest

from milepost.clock import ManualClock
from milepost.errors import OutOfOrderSequence
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from tests.log.making import NOW, idempotent, log_in, marker, names, placed, produced, snapshots, transactional
from tests.log.starting import crash, file
from tests.segment.making import batch


def end(log, producer_id, kind=ControlType.COMMIT, **fields):
    return log.append_as_leader(marker(kind, producer_id=producer_id, **fields), origin=AppendOrigin.COORDINATOR)


# Leader epochs.


def four_epochs(tmp_path):
    with log_in(tmp_path) as log:
        for offset, epoch in [(104, 0), (106, 1), (108, 1), (110, 2)]:
            log.append_as_follower(batch(offset, 2, leader_epoch=epoch, timestamp=NOW))


def epochs(log):
    return [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]


@pytest.mark.parametrize(
    "content", [None, b"", b"0\n1\n0 104\n", b"\x00\x00", b"0\n9\n0 104\n"], ids=["lost", "empty", "stale", "zeros", "short"]
)
def test_epochs_are_learnt_again_from_the_batches(tmp_path, content):
    four_epochs(tmp_path)
    crash(tmp_path)
    path = file(tmp_path, "leader-epoch-checkpoint")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert epochs(log_in(tmp_path)) == [(0, 104), (1, 106), (2, 110)]


def test_epochs_at_or_behind_the_log_end_are_forgotten(tmp_path):
    four_epochs(tmp_path)
    file(tmp_path, "leader-epoch-checkpoint").write_text("0\n4\n0 104\n1 106\n2 110\n5 112\n")
    assert epochs(log_in(tmp_path)) == [(0, 104), (1, 106), (2, 110)]


def test_epochs_below_the_log_start_are_cut_to_it(tmp_path):
    four_epochs(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 107\n")
    assert epochs(log_in(tmp_path)) == [(1, 107), (2, 110)]


# Producers and transactions.


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", ["none", "newest", "all"])
def test_producers_are_known_with_their_five_batches_whatever_snapshots_are_left(tmp_path, is_clean, lost):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(12):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    assert snapshots(log) == [3, 6, 9, 12]
    for offset in {"none": [], "newest": [12], "all": [3, 6, 9, 12]}[lost]:
        file(tmp_path, f"{offset}.snapshot").unlink()
    if not is_clean:
        crash(tmp_path)
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7, 12):
        assert log.append_as_leader(idempotent(number, size=100)).first_offset == number
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(idempotent(6, size=100))
    assert log.append_as_leader(idempotent(12, size=100)).first_offset == 12


def test_damaged_snapshot_is_passed_over_for_an_older_one(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    for offset in (6, 7):
        path = file(tmp_path, f"{offset}.snapshot")
        path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    log = log_in(tmp_path, segment_bytes=300)
    assert log.producers.last_entry(1).last_sequence == 6


def test_snapshot_of_an_empty_log_is_removed(tmp_path):
    log = log_in(tmp_path)
    log.close()
    file(tmp_path, "42.snapshot").write_bytes(b"x")
    log = log_in(tmp_path)
    assert (snapshots(log), log.end_offset) == ([], 0)


def test_snapshots_between_segments_are_removed_but_for_the_one_of_the_last_stop(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    for offset in (1, 4):
        shutil.copy(file(tmp_path, "3.snapshot"), file(tmp_path, f"{offset}.snapshot"))
    log = log_in(tmp_path, segment_bytes=300)
    assert snapshots(log) == [3, 6, 7]


@pytest.mark.parametrize("recovery_point", [25, 30])
@pytest.mark.parametrize("left", [[], [10]])
def test_unclean_start_writes_the_snapshots_of_the_last_segments_again(tmp_path, left, recovery_point):
    log = log_in(tmp_path, segment_bytes=700)
    for number in range(30):
        log.append_as_leader(idempotent(number))
    assert (log.segments.base_offsets(), snapshots(log)) == ([0, 10, 20], [10, 20])
    log.close()
    crash(tmp_path, recovery_point)
    for offset in (10, 20, 30):
        if offset not in left:
            file(tmp_path, f"{offset}.snapshot").unlink()
    log = log_in(tmp_path, segment_bytes=700)
    assert snapshots(log) == [10, 20, 30]
    assert log.producers.last_entry(1).last_sequence == 29
    log.close()


@pytest.mark.parametrize("left", [[], [10]])
def test_clean_start_writes_the_snapshots_that_are_gone_from_the_last_segments_again(tmp_path, left):
    log = log_in(tmp_path, segment_bytes=700)
    for number in range(30):
        log.append_as_leader(idempotent(number))
    log.close()
    for offset in (10, 20, 30):
        if offset not in left:
            file(tmp_path, f"{offset}.snapshot").unlink()
    log = log_in(tmp_path, segment_bytes=700)
    assert snapshots(log) == [10, 20, 30]
    assert log.producers.last_entry(1).last_sequence == 29
    log.close()


def test_roll_and_stop_leave_a_snapshot_each(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced())
    log.roll()
    assert snapshots(log) == [1]
    log.append_as_leader(produced())
    log.close()
    assert snapshots(log) == [1, 2]


def test_snapshots_go_with_their_segments_and_their_files_after_the_delay(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_bytes=150, file_delete_delay_ms=1000)
    for number in range(3):
        log.append_as_leader(idempotent(number, size=100))
    assert snapshots(log) == [1, 2]
    log.update_high_watermark(3)
    log.delete_segments(list(log.segments)[:2])
    assert (log.start_offset, snapshots(log), log.segments.base_offsets()) == (2, [2], [2])
    assert "1.snapshot.deleted" in names(log)
    clock.advance(1000)
    log.scheduler.run_due()
    assert names(log, ".deleted") == []
    assert log.producers.last_entry(1).last_sequence == 2


def test_producer_of_the_first_record_is_known_after_the_second_was_cut_off(tmp_path):
    log = log_in(tmp_path, segment_bytes=150)
    log.append_as_leader(idempotent(0, size=100))
    log.append_as_leader(idempotent(1, size=100))
    assert snapshots(log) == [1]
    log.truncate_to(1)
    log.close()
    known = log_in(tmp_path, segment_bytes=150).producers.last_entry(1)
    assert (known.batches[0].first_offset, known.last_data_offset) == (0, 0)


def test_producer_that_was_silent_for_a_day_is_forgotten_when_its_snapshot_is_loaded(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_leader(idempotent(0))
    assert log_in(tmp_path, mode="r", clock=ManualClock(NOW + 86_399_999)).producers.last_entry(1) is not None
    assert log_in(tmp_path, mode="r", clock=ManualClock(NOW + 86_400_000)).producers.last_entry(1) is None


def two_producers(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, producer_id=1))
    return log


def test_producers_below_a_log_start_inside_a_segment_are_known_after_a_crash(tmp_path):
    log = two_producers(tmp_path)
    log.append_as_leader(idempotent(0, producer_id=2))
    log.update_high_watermark(2)
    log.increment_start(1)
    log.close()
    crash(tmp_path)
    assert sorted(log_in(tmp_path).producers.producers) == [1, 2]


def test_producers_of_removed_segments_are_forgotten_after_a_crash(tmp_path):
    log = two_producers(tmp_path)
    log.roll()
    log.append_as_leader(idempotent(0, producer_id=2))
    log.update_high_watermark(2)
    log.increment_start(1)
    log.delete_segments([log.segments.first])
    log.close()
    crash(tmp_path)
    assert sorted(log_in(tmp_path).producers.producers) == [2]


def test_recovery_writes_the_transaction_index_again(tmp_path):
    """Producer 2 aborts while the transaction of producer 1, which began before, is still open."""
    log = log_in(tmp_path)
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(transactional(0, 2, producer_id=1))
    log.append_as_leader(transactional(0, 2, producer_id=2))
    log.append_as_leader(produced(2))
    end(log, 2, ControlType.ABORT)
    end(log, 1)
    log.close()
    expected = [(2, 102, 106, 100)]
    crash(tmp_path)
    file(tmp_path, "100.txnindex").unlink()
    log = log_in(tmp_path)
    found = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in log.segments.active.txn_index.transactions()
    ]
    assert found == expected
    assert log.producers.map_end_offset == 108


def aborted_in(log):
    return [
        (segment.base_offset, aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for segment in log.segments
        for aborted in segment.txn_index.transactions()
    ]


@pytest.mark.parametrize("lost", ["last segment", "all segments", "last segment and snapshots", "all segments and snapshots"])
def test_aborted_transactions_are_found_again_without_indexes(tmp_path, lost):
    log = log_in(tmp_path, segment_bytes=400)
    log.append_as_leader(transactional(0, 2, producer_id=1, size=150))  # 0-1
    log.append_as_leader(transactional(0, 2, producer_id=2, size=150))  # 2-3
    log.append_as_leader(transactional(2, 2, producer_id=1, size=150))  # 4-5
    end(log, 1, ControlType.ABORT)  # 6
    log.append_as_leader(transactional(2, 2, producer_id=2, size=150))  # 7-8
    end(log, 2, ControlType.ABORT)  # 9
    log.append_as_leader(transactional(4, 2, producer_id=1, size=150))  # 10-11
    log.close()
    expected = [(4, 1, 0, 6, 2), (9, 2, 2, 9, 10)]
    assert aborted_in(log) == expected
    bases = log.segments.base_offsets()
    for base in bases if lost.startswith("all") else bases[-1:]:
        for suffix in (".index", ".txnindex"):
            file(tmp_path, f"{base}{suffix}").unlink(missing_ok=True)
    if lost.endswith("snapshots"):
        for offset in snapshots(log):
            file(tmp_path, f"{offset}.snapshot").unlink()
    again = log_in(tmp_path, segment_bytes=400)
    assert aborted_in(again) == expected
    assert again.first_unstable_offset == 10


def test_coordinator_epoch_that_goes_back_in_the_log_is_accepted_by_recovery(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_follower(placed(transactional(0), 0))
        log.append_as_follower(marker(ControlType.COMMIT, coordinator_epoch=5, offset=1, timestamp=NOW + 1))
        log.append_as_follower(placed(transactional(1), 2))
        log.append_as_follower(marker(ControlType.COMMIT, coordinator_epoch=3, offset=3, timestamp=NOW + 2))
    crash(tmp_path)
    log = log_in(tmp_path)
    assert (log.end_offset, log.producers.last_entry(1).last_timestamp) == (4, NOW + 2)


def test_open_transaction_stays_open_over_clean_and_unclean_starts(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_leader(produced(3))
        log.append_as_leader(transactional(0, 2))
    for _ in range(2):
        log = log_in(tmp_path)
        assert (log.first_unstable_offset, log.last_stable_offset) == (3, 3)
        log.close()
        crash(tmp_path)
