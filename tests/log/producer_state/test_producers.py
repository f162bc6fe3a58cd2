"""All producers of a log: transactions and what is stable, snapshots on disk, loading, expiry, verification."""

from __future__ import annotations

import logging

import pytest

from milepost.clock import ManualClock
from milepost.errors import InvalidArgument, InvalidTxnState, OutOfOrderSequence
from milepost.files import Disk, Overlay
from milepost.log.producer_state.producer_entry import AppendOrigin, BatchMetadata, CompletedTransaction
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.producer_state.snapshot import (
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_name,
    snapshot_name,
    snapshot_offset,
)
from milepost.log.producer_state.verification import VerificationGuard
from milepost.record.batch import RecordBatch
from milepost.record.batches import iter_batches
from milepost.record.builder import empty_batch
from tests.golden_fixture import all_partitions
from tests.log.producer_state.producer_batches import abort, commit, data

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
MAX_SEQUENCE = 2147483647
EXPIRATION_MS = 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def manager(tmp_path, clock) -> ProducerStateManager:
    return ProducerStateManager(str(tmp_path), Disk(), clock)


@pytest.fixture
def reopened(tmp_path, clock):
    """Another manager on the same directory, as after a restart."""
    return lambda: ProducerStateManager(str(tmp_path), Disk(), clock)


def write(manager: ProducerStateManager, *batches: RecordBatch, origin: AppendOrigin = CLIENT) -> None:
    """Append each batch as the log does."""
    for batch in batches:
        append = manager.prepare_update(batch.producer_id, origin)
        completed = append.append(batch)
        manager.update(append)
        if completed is not None:
            manager.complete_transaction(completed)
        manager.update_map_end_offset(batch.last_offset + 1)


def on_disk(tmp_path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def names(*offsets: int) -> list[str]:
    return [snapshot_name(offset) for offset in offsets]


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


# Snapshots.


def test_snapshot_is_taken_once_for_a_state(manager, tmp_path):
    write(manager, data(0, sequence=0), data(1, sequence=1))
    assert manager.take_snapshot() == f"{tmp_path}/00000000000000000002.snapshot"
    assert manager.take_snapshot() is None
    assert on_disk(tmp_path) == names(2)
    assert manager.last_snapshot_offset == 2


def test_snapshot_is_taken_where_the_directory_is_now(manager, tmp_path):
    write(manager, data(0))
    gone = tmp_path / "gone"
    gone.mkdir()
    manager.move_to(str(gone))
    assert manager.take_snapshot() == f"{gone}/00000000000000000001.snapshot"
    assert on_disk(gone) == names(1)
    assert not (tmp_path / names(1)[0]).exists()


def test_plain_records_move_the_state_too(manager, tmp_path):
    manager.update_map_end_offset(1)
    manager.take_snapshot()
    assert manager.snapshots() == [1]
    assert (tmp_path / names(1)[0]).read_bytes().hex(" ") == "00 01 48 67 4b c7 00 00 00 00"


def test_empty_log_takes_no_snapshot(manager, tmp_path):
    assert manager.take_snapshot() is None
    assert on_disk(tmp_path) == []


def test_snapshots_before_an_offset_are_deleted(manager, tmp_path):
    write(manager, data(0, sequence=0), data(1, sequence=1))
    manager.take_snapshot()
    write(manager, data(2, sequence=2))
    manager.take_snapshot()
    assert manager.snapshots() == [2, 3]
    manager.delete_snapshots_before(3)
    assert on_disk(tmp_path) == names(3)
    manager.delete_snapshots_before(4)
    assert on_disk(tmp_path) == []
    assert manager.snapshots() == []


def test_snapshot_of_a_deleted_segment_is_renamed(manager, tmp_path):
    manager.update_map_end_offset(7)
    manager.take_snapshot()
    assert manager.rename_snapshot_for_delete(7) == f"{tmp_path}/00000000000000000007.snapshot.deleted"
    assert on_disk(tmp_path) == ["00000000000000000007.snapshot.deleted"]
    assert manager.snapshots() == []
    assert manager.rename_snapshot_for_delete(7) is None
    assert manager.rename_snapshot_for_delete(8) is None


def test_snapshot_that_somebody_removed_is_not_missed(manager, tmp_path):
    for offset in (7, 8):
        manager.update_map_end_offset(offset)
        manager.take_snapshot()
    for path in tmp_path.iterdir():
        path.unlink()
    assert manager.rename_snapshot_for_delete(7) is None
    manager.remove_snapshot(8)
    assert manager.snapshots() == []


def test_other_files_of_the_directory_are_no_snapshots(tmp_path, reopened):
    for name in ("00000000000000000000.log", f"{names(5)[0]}.deleted", f"{names(9)[0]}.tmp", "a.snapshot"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / names(3)[0]).write_bytes(encode_snapshot([]))
    assert reopened().snapshots() == [3]


@pytest.mark.parametrize(
    ("there", "bases", "left"),
    [
        ([2, 5, 42], [42], [42]),
        ([2, 5, 42], [5], [5, 42]),
        ([2, 5, 42], [2, 5], [2, 5, 42]),
        ([2, 5, 42, 43], [2, 42], [2, 42, 43]),
        ([2, 5], [0, 42], []),
        ([5, 9], [0], [9]),
        ([], [0], []),
    ],
)
def test_stray_snapshots_go_but_for_the_one_of_the_last_stop(tmp_path, reopened, there, bases, left):
    for name in names(*there):
        (tmp_path / name).write_bytes(encode_snapshot([]))
    manager = reopened()
    manager.remove_stray_snapshots(bases)
    assert manager.snapshots() == left
    assert on_disk(tmp_path) == names(*left)


# Loading.


def test_state_comes_back_from_its_snapshot(manager, reopened):
    write(manager, data(0, 4, sequence=0), data(5, sequence=5), data(6, producer_id=2, transactional=True))
    manager.take_snapshot()
    again = reopened()
    again.truncate_and_reload(0, 7)
    assert (again.map_end_offset, again.last_snapshot_offset) == (7, 7)
    assert again.last_entry(1).batches[0] == BatchMetadata(5, 5, 0, 1000)
    assert again.first_unstable_offset == 6
    write(again, data(7, sequence=6))
    with pytest.raises(OutOfOrderSequence):
        write(again, data(8, sequence=9))


def test_open_transactions_of_a_snapshot_are_ordered_by_offset(manager, reopened):
    write(manager, data(3, producer_id=9, transactional=True), data(4, producer_id=2, transactional=True))
    manager.take_snapshot()
    again = reopened()
    again.truncate_and_reload(0, 5)
    assert again.first_unstable_offset == 3
    assert again.last_stable_offset(CompletedTransaction(9, 3, 10, True)) == 4


def test_snapshot_holds_one_batch_and_the_older_ones_are_put_back_in_front(manager, reopened):
    write(manager, *(data(offset, sequence=offset) for offset in range(6)))
    manager.take_snapshot()
    again = reopened()
    again.truncate_and_reload(0, 6)
    older = [BatchMetadata(offset, offset, 0, 1000) for offset in range(6)]
    again.restore_batches(1, older)
    assert list(again.last_entry(1).batches) == list(manager.last_entry(1).batches)
    again.restore_batches(1, older)
    assert [batch.last_offset for batch in again.last_entry(1).batches] == [1, 2, 3, 4, 5]
    again.restore_batches(77, older)
    assert again.last_entry(77) is None


def test_snapshots_outside_the_log_are_deleted_before_loading(manager, tmp_path):
    for sequence in range(5):
        write(manager, data(sequence, sequence=sequence))
        manager.take_snapshot()
    manager.truncate_and_reload(1, 3)
    assert manager.snapshots() == [2, 3]
    assert on_disk(tmp_path) == names(2, 3)
    assert (manager.map_end_offset, manager.last_entry(1).last_sequence) == (3, 2)


def test_snapshot_behind_the_end_of_an_empty_log_is_deleted(tmp_path, reopened):
    (tmp_path / names(42)[0]).write_bytes(encode_snapshot([]))
    manager = reopened()
    manager.remove_stray_snapshots([0])
    manager.truncate_and_reload(0, 0)
    assert on_disk(tmp_path) == []
    assert (manager.map_end_offset, manager.last_snapshot_offset) == (0, 0)


def test_state_that_ends_where_the_log_ends_is_kept(manager):
    write(manager, data(0, sequence=0), data(1, sequence=1))
    manager.truncate_and_reload(0, 2)
    assert manager.last_entry(1).last_sequence == 1
    assert manager.snapshots() == []


def test_log_without_a_snapshot_starts_empty_at_its_start(manager):
    write(manager, data(0, sequence=0), data(1, sequence=1))
    manager.truncate_and_reload(1, 5)
    assert manager.is_empty
    assert (manager.map_end_offset, manager.last_snapshot_offset) == (1, 1)


GOOD = encode_snapshot([])


@pytest.mark.parametrize("damaged", [b"", GOOD[:9], GOOD + b"\0", b"\x05" * 37], ids=["empty", "cut", "longer", "garbage"])
def test_damaged_snapshot_is_deleted_and_the_older_one_used(manager, tmp_path, reopened, caplog, damaged):
    write(manager, data(0, sequence=0))
    manager.take_snapshot()
    write(manager, data(1, sequence=1))
    (tmp_path / names(2)[0]).write_bytes(damaged)
    again = reopened()
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        again.truncate_and_reload(0, 2)
    assert (again.map_end_offset, again.last_entry(1).last_data_offset) == (1, 0)
    assert on_disk(tmp_path) == names(1)
    assert "00000000000000000002.snapshot" in caplog.text


def test_every_snapshot_damaged_means_reading_the_log_from_its_start(tmp_path, reopened):
    for name in names(1, 2):
        (tmp_path / name).write_bytes(b"damaged")
    manager = reopened()
    manager.truncate_and_reload(0, 2)
    assert (manager.map_end_offset, manager.is_empty, manager.snapshots()) == (0, True, [])


def test_snapshot_is_never_seen_half_written(manager, tmp_path, monkeypatch):
    write(manager, data(0, sequence=0))
    manager.take_snapshot()
    before = (tmp_path / names(1)[0]).read_bytes()

    def full(self, fd, content, position):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Disk, "pwrite", full)
    write(manager, data(1, sequence=1))
    with pytest.raises(OSError, match="No space"):
        manager.take_snapshot()
    assert manager.snapshots() == [1]
    assert manager.last_snapshot_offset == 1
    assert (tmp_path / names(1)[0]).read_bytes() == before
    monkeypatch.undo()
    manager.take_snapshot()
    assert manager.snapshots() == [1, 2]


def test_reading_through_an_overlay_changes_no_file(manager, tmp_path, clock):
    write(manager, data(0, sequence=0))
    manager.take_snapshot()
    (tmp_path / names(2)[0]).write_bytes(b"damaged")
    reader = ProducerStateManager(str(tmp_path), Overlay(), clock)
    reader.truncate_and_reload(0, 2)
    assert reader.snapshots() == [1]
    reader.update_map_end_offset(3)
    reader.take_snapshot()
    assert on_disk(tmp_path) == names(1, 2)


def test_full_truncation_forgets_everything(manager, tmp_path):
    write(manager, data(0, sequence=0), data(1, sequence=1, transactional=True))
    manager.take_snapshot()
    write(manager, commit(2))
    manager.truncate_fully_and_start_at(29)
    assert manager.is_empty
    assert manager.first_unstable_offset is None
    assert (manager.map_end_offset, manager.last_snapshot_offset) == (29, 0)
    assert on_disk(tmp_path) == []


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


# Verification (KIP-890).


def test_guard_is_the_same_until_it_is_cleared(manager):
    assert manager.verification_guard(1) is None
    guard = manager.maybe_create_verification(1, 0, 0)
    assert manager.maybe_create_verification(1, 0, 0) is guard
    assert manager.verification_guard(1) is guard
    manager.clear_verification(1)
    assert manager.verification_guard(1) is None
    assert manager.maybe_create_verification(1, 0, 0) is not guard


def lowest_accepted(manager: ProducerStateManager, *, epoch: int = 0) -> int:
    """The largest first sequence that the verification lets through."""
    for sequence in range(20, -1, -1):
        try:
            manager.prepare_update(1, CLIENT).append(data(0, sequence=sequence, epoch=epoch, transactional=True))
        except OutOfOrderSequence:
            continue
        return sequence
    return -1


def test_lowest_waiting_sequence_falls_with_lower_ones_and_follows_a_newer_epoch(manager):
    manager.maybe_create_verification(1, 5, 0)
    assert lowest_accepted(manager) == 5
    manager.maybe_create_verification(1, 7, 0)
    assert lowest_accepted(manager) == 5
    manager.maybe_create_verification(1, 3, 0)
    assert lowest_accepted(manager) == 3
    manager.maybe_create_verification(1, 9, 1)
    assert lowest_accepted(manager) == 9
    manager.maybe_create_verification(1, 0, 0)
    assert lowest_accepted(manager) == 9


def test_later_batch_waits_for_the_one_being_verified(manager):
    manager.maybe_create_verification(1, 3, 0)
    with pytest.raises(OutOfOrderSequence, match="sequence 4, but the batch with sequence 3 is still being verified"):
        write(manager, data(0, sequence=4, transactional=True))
    write(manager, data(0, sequence=3, transactional=True))
    write(manager, data(1, sequence=4, transactional=True))
    assert manager.last_entry(1).last_sequence == 4


def test_first_batch_of_a_transaction_needs_the_registered_guard(manager):
    first = data(0, sequence=0, transactional=True)
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(InvalidTxnState, match=r"producer 1.*did not confirm"):
            manager.check_verification(first, origin, None)
    guard = manager.maybe_create_verification(1, 0, 0)
    for origin in (CLIENT, COORDINATOR):
        for wrong in (None, VerificationGuard()):
            with pytest.raises(InvalidTxnState):
                manager.check_verification(first, origin, wrong)
        manager.check_verification(first, origin, guard)


def test_only_transactional_data_from_outside_is_verified(manager):
    manager.check_verification(data(0, sequence=0), CLIENT, None)
    manager.check_verification(commit(0), COORDINATOR, None)
    manager.check_verification(data(0, sequence=0, transactional=True), REPLICATION, None)


def test_open_transaction_of_the_same_epoch_needs_no_guard(manager):
    write(manager, data(0, sequence=0, transactional=True))
    manager.check_verification(data(1, sequence=1, transactional=True), CLIENT, None)
    with pytest.raises(InvalidTxnState):
        manager.check_verification(data(1, sequence=0, epoch=1, transactional=True), CLIENT, None)


@pytest.mark.parametrize("batch", [data(0, sequence=0, transactional=True), abort(0)], ids=["data", "marker"])
def test_transactional_write_ends_the_verification(manager, batch):
    guard = manager.maybe_create_verification(1, 0, 0)
    write(manager, batch)
    assert manager.verification_guard(1) is None
    assert manager.maybe_create_verification(1, 0, 0) is not guard


def test_verification_expires_with_the_interval(tmp_path):
    manager = ProducerStateManager(str(tmp_path), Disk(), ManualClock(1000), expiration_ms=200)
    manager.maybe_create_verification(1, 0, 0)
    manager.remove_expired(1199)
    assert manager.verification_guard(1) is not None
    manager.remove_expired(1200)
    assert manager.verification_guard(1) is None


# The bytes.


def test_snapshot_bytes_of_a_state_read_back_as_the_same_state(manager, tmp_path):
    write(
        manager,
        data(0, 4, sequence=0, producer_id=7, timestamp=5),
        data(5, sequence=0, producer_id=3, transactional=True),
        data(6, sequence=1, producer_id=3, transactional=True),
        commit(7, producer_id=3, coordinator_epoch=4, timestamp=9),
        data(8, producer_id=5, epoch=2, transactional=True),
    )
    path = manager.take_snapshot()
    stored = decode_snapshot((tmp_path / names(9)[0]).read_bytes(), path)
    assert stored == [
        SnapshotEntry(3, 0, 1, 6, 0, last_timestamp=9, coordinator_epoch=4, current_txn_first_offset=None),
        SnapshotEntry(5, 2, 0, 8, 0, last_timestamp=1000, coordinator_epoch=-1, current_txn_first_offset=8),
        SnapshotEntry(7, 0, 4, 4, 4, last_timestamp=5, coordinator_epoch=-1, current_txn_first_offset=None),
    ]


# Where nothing was removed from the log: a state can be read back only from batches that are still there.
WHOLE_LOGS = [
    (case, partition)
    for case, partition in all_partitions()
    if not case.startswith("log_start/") and (not case.startswith("compaction/") or case.endswith("1a-input"))
]


@pytest.mark.parametrize(("case", "partition"), WHOLE_LOGS)
def test_replay_of_a_real_log_passes_through_every_state_its_broker_stored(golden, case, partition):
    directory = golden.partition(case, partition)
    manager = ProducerStateManager(str(directory), Overlay(), ManualClock(0))
    snapshots = {
        snapshot_offset(path.name): path.read_bytes() for path in sorted(directory.iterdir()) if is_snapshot_name(path.name)
    }

    def compare(up_to: int) -> None:
        for offset in [offset for offset in snapshots if offset <= up_to]:
            stored = snapshots.pop(offset)
            slots = sorted(stored[start : start + 46] for start in range(10, len(stored), 46))
            assert encode_snapshot(manager.producers.values())[10:] == b"".join(slots), f"at offset {offset}"

    for log in sorted(directory.glob("*.log")):
        for batch in iter_batches(log.read_bytes()):
            if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
                compare(batch.base_offset)
                completed = manager.replay(batch)
                if completed is not None:
                    manager.complete_transaction(completed)
    compare(2**63)
