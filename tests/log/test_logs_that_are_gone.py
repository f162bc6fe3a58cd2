"""A log that was deleted or closed changes nothing any more: not its files, and above all not those of the next log of its name."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import KafkaStorage
from milepost.log.directory.checkpoints import read_offset_checkpoint
from milepost.log.directory.data_directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.log import Log
from milepost.log.maintenance import log_maintenance
from milepost.log.maintenance.scheduler import Scheduler, Task, WorkQueue
from milepost.log.maintenance.side_thread import BackgroundScheduler
from milepost.log.manager import LogManager
from milepost.log.retention import delete_old_segments
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.log.cleaning.cleaned_logs import contents
from tests.log.making import log_in, produced
from tests.quick_disk import QuickDisk

NOW = 1_700_000_000_000
DAY = 86_400_000
VISITS = TopicPartition("visits", 0)
OTHER = TopicPartition("other", 0)
SHORT = {"segment.bytes": 200, "retention.ms": 1000, "file.delete.delay.ms": 60_000}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 200, "min.cleanable.dirty.ratio": 0}
BOTH = SHORT | COMPACTED | {"cleanup.policy": "compact,delete"}


class FullDisk(QuickDisk):
    """A disk without room for one file, as long as `full` names it."""

    full = "nothing"

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        if flags & os.O_CREAT and f"/{self.full}" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, flags)

    def sync_directory(self, path: str) -> None:
        self.stat(path)  # it has to be there


class SlowScheduler(Scheduler):
    """What is given aside waits until somebody has to have it."""

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self.waiting: list[Callable[[], None]] = []

    def in_background(self, work, then, failed, work_queue=WorkQueue.METADATA) -> None:
        self.waiting.append(partial(super().in_background, work, then, failed, work_queue))

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        while self.waiting and not is_enough():
            self.waiting.pop(0)()

    def all(self, works: Sequence[Task]) -> list[OSError | None]:
        return Scheduler(self._clock).all(works)


class Managers:
    def __init__(self, directory: Path):
        self.directory = directory
        self.clock = ManualClock(NOW)
        self.disk = FullDisk()
        self.started: list[LogManager] = []

    def start(self, topic: dict[str, object], directory: Path | None = None) -> LogManager:
        config = BrokerConfig.parse({"log.dirs": str(directory or self.directory), "log.cleaner.dedupe.buffer.size": 2 << 20})
        topics = dict.fromkeys((VISITS.topic, OTHER.topic), topic)
        manager = LogManager(config, topics, disk=self.disk, clock=self.clock, rng=random.Random(1))
        manager.startup()
        self.started.append(manager)
        return manager

    def after_crash(self, topic: dict[str, object], copy: Path) -> LogManager:
        """Another manager, on what is on the disk now."""
        shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns(".lock"))
        return self.start(topic, copy)

    def stop(self) -> None:
        while self.started:
            self.started.pop().shutdown()


@pytest.fixture
def managers(tmp_path):
    made = Managers(tmp_path / "data")
    yield made
    made.stop()


def put(log: Log, *values: str, age_ms: int = 0) -> None:
    for value in values:
        log.append([Record(key=value.encode(), value=value.encode() * 10, timestamp=log.clock.now_ms() - age_ms)])


def values(log: Log) -> list[str | None]:
    """The keys of all records, committed or not."""
    return [key for offset, (key, _) in contents(log).items() if offset >= log.start_offset]


def filled(manager: LogManager, count: int = 12, young: int = 0) -> Log:
    """A log of several segments, all of them too old to be kept but those with `young` records."""
    log = manager.create(VISITS)
    put(log, *(f"old{number}" for number in range(count)), age_ms=DAY)
    put(log, *(f"young{number}" for number in range(young)))
    assert len(log.segments) > 8
    return log


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


def made_again(manager: LogManager) -> Callable[[], None]:
    def make() -> None:
        manager.delete(VISITS)
        put(manager.create(VISITS), *(f"new{number}" for number in range(6)))

    return make


NEW = [f"new{number}" for number in range(6)]


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


# A topic of the same name.


@pytest.mark.parametrize("how", ["delete", "set aside"])
@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_topic_made_again_starts_at_zero_also_after_a_crash(managers, tmp_path, how, is_checkpointed):
    manager = managers.start(BOTH | {"retention.ms": -1})
    log = filled(manager, 20)
    log.flush()
    log.delete_records(16)
    manager.clean()
    if is_checkpointed:
        for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            list(manager.maintenance.checkpoint(name))
    manager.delete(VISITS) if how == "delete" else manager.set_aside(VISITS)
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS):
        path = managers.directory / name
        assert not path.exists() or "visits" not in path.read_text()
    new = manager.create(VISITS)
    put(new, *NEW)
    assert (new.start_offset, new.end_offset, values(new)) == (0, 6, NEW)
    put(new, *(f"more{number}" for number in range(20)))
    again = managers.after_crash(COMPACTED, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset, again.high_watermark) == (0, 26, 0)


def test_topic_made_again_after_a_crash_that_left_its_checkpoints_starts_at_zero(managers, tmp_path):
    """The crash came between the rename of the directory and the checkpoints."""
    manager = managers.start({})
    put(manager.create(OTHER), "one")
    manager.shutdown()
    (managers.directory / LOG_STARTS).write_text("0\n1\nvisits 0 16\n")
    manager = managers.start({})
    log = manager.create(VISITS)
    put(log, *NEW)
    assert (log.start_offset, values(log)) == (0, NEW)
    put(log, *(f"more{number}" for number in range(20)))
    again = managers.after_crash({}, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset) == (0, 26)


def test_checkpoints_without_a_deleted_topic_are_written_before_its_name_is_used_again(managers, tmp_path):
    """By side threads, and the loop that would begin the rewrite has no time."""
    manager = managers.start({})
    posted: list[Callable[[], None]] = []
    manager.scheduler = BackgroundScheduler(managers.clock, posted.append)
    log = manager.create(VISITS)
    put(log, *(f"old{number}" for number in range(20)))
    log.delete_records(16)
    list(manager.maintenance.checkpoint(LOG_STARTS))
    manager.scheduler.wait()
    made_again(manager)()
    put(manager.logs[VISITS], *(f"more{number}" for number in range(20)))
    again = managers.after_crash({}, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset) == (0, 26)
    for task in posted:
        task()
    manager.scheduler.wait()
    list(manager.maintenance.checkpoint(HIGH_WATERMARKS))
    manager.scheduler.stop()
    assert (managers.directory / HIGH_WATERMARKS).read_text() == "0\n1\nvisits 0 26\n"


def test_topic_of_many_partitions_that_goes_is_taken_out_of_the_checkpoints_a_few_times_not_once_for_each(managers):
    """The disk is slower than the loop, which takes partitions away one pass after the other."""
    manager = managers.start({})
    names = [TopicPartition("visits", number) for number in range(200)]
    for name in names:
        put(manager.create(name), "one")
    list(manager.maintenance.checkpoint(HIGH_WATERMARKS))
    manager.scheduler = scheduler = SlowScheduler(managers.clock)
    for name in names[:100]:
        manager.delete(name)
    assert len(scheduler.waiting) == 1
    scheduler.wait()
    for name in names[100:]:
        manager.delete(name)
    assert len(scheduler.waiting) == 1
    scheduler.wait()
    assert (managers.directory / HIGH_WATERMARKS).read_text() == "0\n0\n"


def test_log_that_is_opened_on_its_own_and_is_new_does_not_start_where_an_earlier_one_did(tmp_path):
    (tmp_path / LOG_STARTS).write_text("0\n1\ntopic 0 16\n")
    log = log_in(tmp_path)
    put(log, *NEW)
    assert (log.start_offset, values(log)) == (0, NEW)
    log.close()
    assert (tmp_path / LOG_STARTS).read_text() == "0\n0\n"
