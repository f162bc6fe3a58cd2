"""Snapshots of what is known of producers: when they are taken, which go, and what a start makes of them."""

from __future__ import annotations

import logging

import pytest

from milepost.clock import ManualClock
from milepost.errors import OutOfOrderSequence
from milepost.files import Disk, Overlay
from milepost.log.producer_state.producer_entry import BatchMetadata, CompletedTransaction
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.producer_state.snapshot import (
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_name,
    snapshot_name,
    snapshot_offset,
)
from milepost.record.batch import RecordBatch
from milepost.record.batches import iter_batches
from tests.golden_fixture import all_partitions
from tests.log.producer_state.managing import write
from tests.log.producer_state.producer_batches import commit, data


def on_disk(tmp_path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def names(*offsets: int) -> list[str]:
    return [snapshot_name(offset) for offset in offsets]


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
