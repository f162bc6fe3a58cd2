"""A log that was deleted or closed changes nothing any more: not its files, and above all not those of the next log of its name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from milepost.errors import KafkaStorage
from milepost.log.directory.checkpoints import read_offset_checkpoint
from milepost.log.directory.data_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.log import Log
from milepost.log.maintenance import log_maintenance
from milepost.log.maintenance.side_thread import BackgroundScheduler
from milepost.log.retention import delete_old_segments
from tests.log.making import log_in, produced
from tests.log.managers import BOTH, COMPACTED, DAY, NEW, OTHER, SHORT, VISITS, filled, made_again, put, values


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def run_with(pieces: Iterator[object], number: int, event: Callable[[], object]) -> bool:
    """All pieces, and before the one of that number something else. Whether there was such a piece."""
    happened = False
    for at, _ in enumerate(pieces, 1):
        if at == number:
            happened = True
            event()
    return happened


# Passes over all logs, with pauses in between.


@pytest.mark.parametrize("topic", [SHORT, BOTH], ids=["delete", "compact,delete"])
@pytest.mark.parametrize("young", [0, 3])
@pytest.mark.parametrize("piece", range(1, 5))
def test_topic_deleted_during_a_retention_pass_is_left_out(managers, caplog, topic, piece, young):
    manager = managers.start(topic)
    manager.scheduler = BackgroundScheduler(managers.clock, lambda task: None)
    manager.create(OTHER)
    filled(manager, young=young)
    run_with(manager.maintenance.retain(), piece, lambda: VISITS in manager.logs and manager.delete(VISITS))
    manager.scheduler.stop()
    assert not manager.offline
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("topic", [SHORT, BOTH], ids=["delete", "compact,delete"])
@pytest.mark.parametrize("piece", range(1, 5))
def test_topic_made_again_during_a_retention_pass_keeps_its_records(managers, tmp_path, topic, piece):
    manager = managers.start(topic)
    put(manager.create(OTHER), "one")
    filled(manager)
    run_with(manager.maintenance.retain(), piece, made_again(manager))
    log = manager.logs[VISITS]
    if values(log):
        assert (values(log), log.start_offset) == (NEW, 0)
        again = managers.after_crash(topic, tmp_path / "copy").logs[VISITS]
        assert (values(again), again.start_offset) == (NEW, 0)
    assert not manager.offline


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
@pytest.mark.parametrize("piece", [1, 2])
def test_checkpoint_says_nothing_of_the_topic_that_was_made_again_while_it_was_gathered(
    managers, tmp_path, monkeypatch, name, piece
):
    monkeypatch.setattr(log_maintenance, "LOGS_IN_A_PIECE", 1)
    manager = managers.start({"segment.bytes": 200})
    log = filled(manager, 20)
    put(manager.create(OTHER), "one")
    log.flush()
    log.delete_records(4)
    assert run_with(manager.maintenance.checkpoint(name), piece, made_again(manager))
    said = read_offset_checkpoint(managers.disk, str(managers.directory / name))
    assert said.get(VISITS, 0) <= {RECOVERY_POINTS: 5, LOG_STARTS: 0, HIGH_WATERMARKS: 6}[name]
    again = managers.after_crash({"segment.bytes": 200}, tmp_path / "copy").logs[VISITS]
    assert (values(again), again.start_offset, again.end_offset) == (NEW, 0, 6)


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
def test_checkpoint_leaves_out_a_topic_that_was_deleted_while_it_was_gathered(managers, monkeypatch, name):
    monkeypatch.setattr(log_maintenance, "LOGS_IN_A_PIECE", 1)
    manager = managers.start(SHORT)
    filled(manager).delete_records(3)
    put(manager.create(OTHER), "one")
    assert run_with(manager.maintenance.checkpoint(name), 1, lambda: manager.delete(VISITS))
    assert "visits" not in (managers.directory / name).read_text()


@pytest.mark.parametrize("event", ["deleted", "made again"])
@pytest.mark.parametrize("piece", range(1, 4))
def test_topic_that_goes_while_dirty_logs_are_looked_for_is_left_out(managers, event, piece):
    filled(managers.start(COMPACTED))
    managers.stop()
    manager = managers.start(COMPACTED)
    manager.write_cleaner_offset(VISITS, 1000)  # wrong, so that looking wants to correct it
    looking = manager.cleaner.look_for_filthiest(manager.logs, manager.cleaner_offset, manager.write_cleaner_offset)
    happened = run_with(looking, piece, made_again(manager) if event == "made again" else lambda: manager.delete(VISITS))
    assert happened or piece > 2
    if happened:
        assert manager.cleaner_offset(VISITS) is None
        assert not manager.cleaner.uncleanable and not manager.offline


# Work that comes late.


def late_epochs(log: Log) -> None:
    log.write_epochs_in_background(["9 9"])


LATE = {
    "flush": Log.flush,
    "flush aside": Log.flush_in_background,
    "flush before an answer": Log.flush_before_answer,
    "epochs": late_epochs,
    "epoch of a leader": lambda log: log.assign_epoch(9),
    "retention": delete_old_segments,
    "roll": Log.roll,
    "cut": lambda log: log.truncate_to(2),
    "cut behind the end": lambda log: log.truncate_to(100),
    "emptied": lambda log: log.truncate_fully_and_start_at(100),
    "records deleted": lambda log: log.delete_records(3),
    "start moved": lambda log: log.increment_start(3),
    "segments deleted": lambda log: log.delete_segments([log.segments.first]),
    "append": lambda log: put(log, "late"),
    "append of a follower": lambda log: log.append_as_follower(produced()),
    "settings": lambda log: log.update_config(log.config),
    "high watermark": lambda log: log.update_high_watermark(2),
    "error of the disk": lambda log: log.fail(OSError(errno.EIO, os.strerror(errno.EIO), log.directory)),
}
SILENT = ("flush", "flush aside", "flush before an answer", "epochs", "settings", "high watermark", "error of the disk")


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("work", LATE)
def test_late_work_on_a_deleted_log_changes_nothing_of_the_next_of_its_name(managers, work, is_removed):
    manager = managers.start(SHORT)
    log = filled(manager)
    made_again(manager)()
    if is_removed:
        managers.clock.advance(60_000)
        manager.scheduler.run_due()
    assert len(list(managers.directory.glob("visits-0.*-delete"))) == (not is_removed)
    before = files(managers.directory)
    if work in SILENT:
        LATE[work](log)
    else:
        with pytest.raises(KafkaStorage):
            LATE[work](log)
    managers.clock.advance(50_000)
    manager.scheduler.run_due()
    assert files(managers.directory) == before
    assert not manager.offline
    assert (values(manager.logs[VISITS]), manager.logs[VISITS].start_offset) == (NEW, 0)


@pytest.mark.parametrize("work", LATE)
def test_closed_log_keeps_its_files(tmp_path, work):
    log = log_in(tmp_path, segment_bytes=200, retention_ms=1000)
    put(log, *(f"old{number}" for number in range(6)), age_ms=DAY)
    log.close()
    before = files(tmp_path)
    if work in SILENT:
        LATE[work](log)
    else:
        with pytest.raises(KafkaStorage):
            LATE[work](log)
    assert files(tmp_path) == before


def test_whoever_waits_for_a_flush_of_a_log_that_is_gone_is_told(managers):
    manager = managers.start({})
    log = manager.create(VISITS)
    put(log, "one")
    manager.delete(VISITS)
    told: list[KafkaStorage | None] = []
    log.when_flushed(told.append)
    assert [type(each) for each in told] == [KafkaStorage]


def test_second_try_for_the_epochs_of_a_deleted_topic_does_not_reach_its_successor(managers):
    manager = managers.start({})
    tasks: list[Callable[[], None]] = []
    manager.scheduler = BackgroundScheduler(managers.clock, tasks.append)
    log = manager.create(VISITS)
    manager.scheduler.wait()
    managers.disk.full = "leader-epoch-checkpoint"
    log.append_as_leader(produced(), leader_epoch=7)
    manager.scheduler.wait()
    manager.delete(VISITS)
    managers.disk.full = "nothing"
    manager.create(VISITS).append_as_leader(produced(), leader_epoch=2)
    manager.scheduler.wait()
    managers.clock.advance(10_000)
    manager.scheduler.run_due()
    manager.scheduler.wait()
    manager.scheduler.stop()
    assert (managers.directory / "visits-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n2 0\n"
    assert not manager.offline


@pytest.mark.parametrize("is_open", [True, False])
def test_reader_of_a_deleted_topic_goes_on_with_its_records_and_not_those_of_the_next_topic(managers, is_open):
    manager = managers.start({})
    log = manager.create(VISITS)
    put(log, "old0", "old1")
    found = log.read(0)
    if not is_open:
        log.close_handles()  # as when others need the descriptors
    made_again(manager)()
    assert b"old0" in found.data
    assert b"new0" not in found.data
    assert values(log) == ["old0", "old1"]
