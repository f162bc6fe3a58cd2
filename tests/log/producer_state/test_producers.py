"""All producers of a log: transactions and what is stable, and who is forgotten when."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.errors import InvalidArgument, OutOfOrderSequence
from milepost.files import Disk
from milepost.log.producer_state.producer_entry import BatchMetadata, CompletedTransaction
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.record.batch import RecordBatch
from milepost.record.builder import empty_batch
from tests.log.producer_state.managing import CLIENT, REPLICATION, write
from tests.log.producer_state.producer_batches import abort, commit, data

MAX_SEQUENCE = 2147483647
EXPIRATION_MS = 86_400_000


# Appending.


def test_nothing_is_known_before_the_update(manager):
    append = manager.prepare_update(1, REPLICATION)
    append.append(data(2000, 2020, sequence=MAX_SEQUENCE - 10))
    assert manager.last_entry(1) is None
    assert manager.is_empty
    manager.update(append)
    entry = manager.last_entry(1)
    assert (entry.first_sequence, entry.last_sequence) == (MAX_SEQUENCE - 10, 9)
    assert (entry.batches[0].first_offset, entry.last_data_offset) == (2000, 2020)
    assert entry.batches[0] == BatchMetadata(9, 2020, 20, 1000)


def test_gap_is_refused_to_a_client_and_taken_from_a_leader(manager):
    write(manager, data(0, sequence=0))
    with pytest.raises(OutOfOrderSequence):
        write(manager, data(1, sequence=2))
    assert manager.last_entry(1).last_sequence == 0
    write(manager, data(1, sequence=2), origin=REPLICATION)
    assert manager.last_entry(1).last_sequence == 2


def test_batches_of_two_producers_do_not_mix(manager):
    write(manager, data(0, sequence=5, producer_id=1), data(1, sequence=0, producer_id=2), data(2, sequence=6, producer_id=1))
    assert {pid: entry.last_sequence for pid, entry in manager.producers.items()} == {1: 6, 2: 0}


def test_emptied_marker_of_an_unknown_producer_makes_no_entry(manager):
    write(manager, RecordBatch(empty_batch(commit(5))), origin=REPLICATION)
    assert manager.is_empty


def test_replay_takes_what_the_log_holds_and_hands_over_completed_transactions(manager):
    assert manager.replay(data(0, 9, sequence=77, transactional=True)) is None
    completed = manager.replay(abort(10))
    assert completed == CompletedTransaction(1, 0, 10, True)
    assert manager.first_unstable_offset == 0
    manager.complete_transaction(completed)
    manager.on_high_watermark_updated(11)
    assert manager.first_unstable_offset is None


# What is stable.


def test_first_unstable_offset_is_none_without_transactions(manager):
    write(manager, data(0, sequence=0))
    assert manager.first_unstable_offset is None


def test_transaction_stays_unstable_until_the_high_watermark_passes_its_marker(manager):
    write(manager, data(99, sequence=0, transactional=True))
    assert manager.first_unstable_offset == 99
    write(manager, commit(105))
    for high_watermark in (100, 105):
        manager.on_high_watermark_updated(high_watermark)
        assert manager.first_unstable_offset == 99
    manager.on_high_watermark_updated(106)
    assert manager.first_unstable_offset is None


def test_truncation_into_a_transaction_opens_it_again(manager):
    write(manager, data(99, sequence=0, transactional=True))
    manager.take_snapshot()
    write(manager, commit(105))
    manager.on_high_watermark_updated(106)
    assert manager.first_unstable_offset is None
    manager.truncate_and_reload(0, 100)
    assert manager.first_unstable_offset == 99
    assert manager.map_end_offset == 100


def test_empty_transactions_between_others_leave_no_trace(manager):
    first = manager.prepare_update(1, CLIENT)
    first.append(data(16, 20, sequence=0, transactional=True))
    assert first.started == [16]
    manager.update(first)
    manager.on_high_watermark_updated(21)
    assert manager.first_unstable_offset == 16

    second = manager.prepare_update(1, CLIENT)
    first_completed = second.append(commit(21, coordinator_epoch=27))
    assert first_completed == CompletedTransaction(1, 16, 21, False)
    assert second.append(commit(22, coordinator_epoch=27)) is None
    assert second.append(abort(23, coordinator_epoch=27)) is None
    second.append(data(24, 27, sequence=5, transactional=True))
    second_completed = second.append(abort(28, coordinator_epoch=27))
    assert second_completed == CompletedTransaction(1, 24, 28, True)
    assert second.append(abort(29, coordinator_epoch=27)) is None
    second.append(data(30, 31, sequence=9, transactional=True))
    assert second.started == [24, 30]

    manager.update(second)
    manager.complete_transaction(first_completed)
    manager.complete_transaction(second_completed)
    manager.on_high_watermark_updated(32)
    assert manager.first_unstable_offset == 30


def test_last_stable_offset_of_a_completion_is_the_oldest_open_transaction_of_others(manager):
    write(
        manager,
        data(0, producer_id=1, transactional=True),
        data(8, producer_id=2, transactional=True),
        data(36, producer_id=3, transactional=True),
    )
    # The aborts of the specification's example: (producer 1, 0..29, 8) and (producer 2, 8..74, 36).
    first = CompletedTransaction(1, 0, 29, True)
    assert manager.last_stable_offset(first) == 8
    manager.complete_transaction(first)
    second = CompletedTransaction(2, 8, 74, True)
    assert manager.last_stable_offset(second) == 36
    manager.complete_transaction(second)
    third = CompletedTransaction(3, 36, 80, False)
    assert manager.last_stable_offset(third) == 81
    manager.on_high_watermark_updated(30)
    assert manager.first_unstable_offset == 8
    manager.on_high_watermark_updated(75)
    assert manager.first_unstable_offset == 36


def test_completing_what_is_not_open_is_a_mistake(manager):
    with pytest.raises(InvalidArgument, match="from offset 5 with the marker at 9, but none is open there"):
        manager.complete_transaction(CompletedTransaction(1, 5, 9, False))


def test_log_start_drops_completed_transactions_below_it_and_keeps_producers(manager):
    write(manager, data(0, 4, transactional=True), commit(5), data(6, producer_id=2, transactional=True))
    manager.on_log_start_incremented(5)
    assert manager.first_unstable_offset == 0
    manager.on_log_start_incremented(6)
    assert manager.first_unstable_offset == 6
    assert sorted(manager.producers) == [1, 2]
    assert manager.map_end_offset == 7
    manager.on_log_start_incremented(20)
    assert (manager.map_end_offset, manager.last_snapshot_offset) == (20, 20)


def test_transaction_is_late_after_the_longest_timeout_and_five_minutes_more(manager, clock, reopened):
    assert not manager.is_transaction_late(10**12, 900_000)
    write(manager, data(0, transactional=True, timestamp=1000))
    manager.take_snapshot()
    late_after = 1000 + 900_000 + 300_000
    assert not manager.is_transaction_late(late_after, 900_000)
    assert manager.is_transaction_late(late_after + 1, 900_000)

    again = reopened()
    again.truncate_and_reload(0, 1)
    assert again.is_transaction_late(late_after + 1, 900_000)
    again.update_map_end_offset(2)
    again.truncate_and_reload(1, 1)
    assert not again.is_transaction_late(late_after + 1, 900_000)
    manager.truncate_fully_and_start_at(0)
    assert not manager.is_transaction_late(late_after + 1, 900_000)


def test_newer_data_in_the_oldest_transaction_makes_it_timely_again(manager):
    write(manager, data(0, sequence=0, transactional=True, timestamp=1000))
    write(manager, data(1, sequence=1, transactional=True, timestamp=500_000))
    assert not manager.is_transaction_late(1_300_001, 900_000)
    write(manager, commit(2))
    assert not manager.is_transaction_late(10**12, 900_000)


# Time.


def test_idle_producer_is_forgotten_and_one_with_an_open_transaction_is_not(tmp_path):
    manager = ProducerStateManager(str(tmp_path), Disk(), ManualClock(0), expiration_ms=200)
    write(manager, data(0, producer_id=1, timestamp=0), data(1, producer_id=2, timestamp=0, transactional=True))
    manager.remove_expired(100)
    assert sorted(manager.producers) == [1, 2]
    manager.remove_expired(200)
    assert sorted(manager.producers) == [2]
    write(manager, data(2, sequence=70, producer_id=1, timestamp=200))
    assert manager.last_entry(1).last_sequence == 70


def test_fencing_marker_outlives_a_check_at_the_same_time(manager, clock):
    write(manager, data(0, sequence=0, transactional=True), abort(1, epoch=1))
    manager.remove_expired(clock.now_ms())
    assert manager.last_entry(1).epoch == 1


def test_producer_that_expired_while_the_log_was_closed_is_not_loaded(manager, clock, reopened):
    write(
        manager,
        data(0, producer_id=1, timestamp=1000),
        data(1, producer_id=2, timestamp=1001),
        data(2, producer_id=3, timestamp=1000, transactional=True),
    )
    manager.take_snapshot()
    clock.advance(EXPIRATION_MS)
    again = reopened()
    again.truncate_and_reload(0, 3)
    assert sorted(again.producers) == [2, 3]
