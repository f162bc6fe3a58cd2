"""One of two data directories fails while a manager looks after its logs: it goes offline once, and the other goes on."""

from __future__ import annotations

import errno
import random
import time
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import KafkaStorage, MilepostError
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.failing_directory import KINDS, FailingDirectoryDisk
from tests.log.making import produced

HOUR = 3_600_000
MARKER = ".kafka_cleanshutdown"
TOPICS = {
    "deleted": {"segment.bytes": "300", "retention.ms": str(HOUR), "file.delete.delay.ms": "1000"},
    # No timestamps: how old a segment is, its file says.
    "undated": {"segment.bytes": "300", "retention.ms": str(HOUR), "file.delete.delay.ms": "1000"},
    "compacted": {"segment.bytes": "300", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "flushed": {"flush.ms": "1000"},
}


class Managed:
    """A manager of two directories, each with a log of every topic."""

    def __init__(self, tmp_path: Path):
        self.disk = FailingDirectoryDisk()
        # The files' own times are those of the machine.
        self.clock = ManualClock(int(time.time() * 1000))
        self.doomed, self.healthy = tmp_path / "a", tmp_path / "b"
        self.offline: list[str] = []
        self.start()
        for topic in TOPICS:
            for number in range(2):
                log = self.manager.create(TopicPartition(topic, number))
                for count in range(6):
                    if topic == "undated":
                        log.append(produced(1, timestamp=-1, size=200))
                    else:
                        log.append([Record(key=b"k", value=b"%d" % count * 150)])
        list(self.manager.maintenance.pieces())

    def start(self) -> None:
        config = BrokerConfig.parse({"log.dirs": f"{self.doomed},{self.healthy}", "log.initial.task.delay.ms": "0"})
        self.manager = LogManager(config, TOPICS, disk=self.disk, clock=self.clock, rng=random.Random(1))
        self.manager.on_offline = self.offline.append
        self.manager.startup()
        self.directories = list(self.manager.directories)

    def logs_in(self, directory: Path) -> list[Log]:
        return [log for log in self.manager.logs.values() if log.directory.startswith(f"{directory}/")]

    def pass_time(self) -> None:
        for _ in range(3):
            self.clock.advance(2 * HOUR)
            list(self.manager.maintenance.pieces())
            self.manager.clean()


@pytest.fixture
def managed(tmp_path: Path) -> Managed:
    return Managed(tmp_path)


@pytest.mark.parametrize("kind", [*KINDS, "everything"])
def test_directory_that_fails_during_maintenance_goes_offline_once_and_the_other_is_looked_after(managed, kind):
    assert [len(managed.logs_in(directory)) for directory in (managed.doomed, managed.healthy)] == [4, 4]
    managed.disk.fail(managed.doomed, *([] if kind == "everything" else [kind]))
    managed.pass_time()
    assert managed.disk.failures or kind in ("make", "list")
    # What could not be unlinked is removed by the next start.
    is_failed = kind not in ("make", "list")
    assert managed.offline == ([str(managed.doomed)] if is_failed else [])
    assert list(managed.manager.offline) == managed.offline
    assert all(log.is_failed is is_failed for log in managed.logs_in(managed.doomed))
    for log in managed.logs_in(managed.healthy):
        assert not log.is_failed
        if log.partition.topic != "flushed":
            assert len(list(log.records())) < 6, f"{log.partition} was left out"
        log.append([Record(key=b"k", value=b"still here")])
    assert all(log.recovery_point == 6 for log in managed.logs_in(managed.healthy) if log.partition.topic == "flushed")


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("kind", ["read", "stat", "open"])
def test_directory_that_fails_while_it_is_measured_for_cleaning_goes_offline_and_the_other_is_cleaned(managed, kind, is_new):
    if is_new:  # the times of the records are not known yet, and have to be read
        managed.manager.shutdown()
        managed.start()
    managed.disk.fail(managed.doomed, kind)
    for log in managed.manager.logs.values():
        log.pool.limit = 1  # so that nothing is open any more
    while managed.manager.clean() is not None:
        pass
    cleaned = next(log for log in managed.logs_in(managed.healthy) if log.partition.topic == "compacted")
    assert len(list(cleaned.records())) < 6
    assert managed.offline == [str(managed.doomed)]


def test_any_number_of_failures_takes_a_directory_offline_once(managed):
    managed.disk.fail(managed.doomed)
    directory = managed.manager.directories[0]
    error = OSError(errno.EIO, "Input/output error")
    for log in managed.logs_in(managed.doomed):
        with pytest.raises(MilepostError):
            log.append([Record(value=b"x" * 100)])
        log.fail(error)
    managed.manager.take_offline(directory, error)
    assert managed.offline == [str(managed.doomed)]


def test_full_disk_ends_a_piece_of_maintenance_and_takes_nothing_offline(managed):
    managed.disk.error = errno.ENOSPC
    managed.disk.fail(managed.doomed, "write", "rename")
    managed.pass_time()
    assert managed.disk.failures
    assert managed.offline == []


def test_maintenance_that_throws_ends_with_that_log_and_is_logged(managed, monkeypatch, caplog):
    victim = managed.logs_in(managed.doomed)[0]
    monkeypatch.setattr(victim, "delete_segments", lambda doomed: 1 // 0)
    managed.pass_time()
    assert "ZeroDivisionError" in caplog.text
    assert managed.offline == []
    assert all(len(list(log.records())) < 6 for log in managed.manager.logs.values() if log.partition.topic == "undated")


def test_task_that_was_put_off_and_throws_keeps_no_other_from_running(managed, caplog):
    done: list[str] = []
    managed.manager.scheduler.later(1000, lambda: done.append("first"))
    managed.manager.scheduler.later(1001, lambda: 1 // 0)
    managed.manager.scheduler.later(1002, lambda: done.append("last"))
    managed.pass_time()
    assert done == ["first", "last"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("kind", ["open", "write", "rename"])
def test_directory_that_fails_at_the_stop_does_not_cost_the_other_its_marker(managed, caplog, kind):
    managed.disk.fail(managed.doomed / MARKER, kind)
    managed.manager.shutdown()
    assert f"{managed.doomed}: no marker of a clean stop: Input/output error; the next start recovers its logs" in caplog.text
    assert [(directory / MARKER).exists() for directory in (managed.doomed, managed.healthy)] == [False, True]
    assert not any(directory.is_open for directory in managed.directories)


def test_directory_that_cannot_say_how_old_its_files_are_goes_offline_and_the_other_loses_what_is_too_old(managed):
    managed.disk.fail(managed.doomed / "undated-", "stat")
    managed.clock.advance(2 * HOUR)
    list(managed.manager.maintenance.retain())
    assert managed.offline == [str(managed.doomed)]
    assert [
        len(list(log.records())) for log in managed.logs_in(managed.healthy) if "retention.ms" in TOPICS[log.partition.topic]
    ] == [0, 0]


def test_failed_directory_refuses_and_names_the_reason(managed):
    managed.disk.fail(managed.doomed, "stat")
    managed.pass_time()
    assert "Input/output error" in managed.manager.offline[str(managed.doomed)]
    with pytest.raises(KafkaStorage, match="offline"):
        managed.manager.get(managed.logs_in(managed.doomed)[0].partition)
