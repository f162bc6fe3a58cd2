"""A leader begins to write, and there is no room for the file of epochs: neither a crash nor a stop forgets where it began."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.log.directory.data_directory import RECOVERY_POINTS
from milepost.log.epochs import EpochEntry
from milepost.log.log import Log
from milepost.log.maintenance.side_thread import BackgroundScheduler
from milepost.log.manager import LogManager
from milepost.topic_partition import TopicPartition
from tests.log.making import NOW, produced
from tests.quick_disk import QuickDisk

VISITS = TopicPartition("visits", 0)
KNOWN = [EpochEntry(1, 0), EpochEntry(2, 3)]


class Disk(QuickDisk):
    has_room = True

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        if not self.has_room and path.endswith("leader-epoch-checkpoint.tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, flags)


class Place:
    """A data directory; three records of epoch 1 and two of epoch 2 in it, and no room when epoch 2 began."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.clock = ManualClock(NOW)
        self.disk = Disk()
        self.manager = manager = self.start(directory)
        manager.scheduler = BackgroundScheduler(self.clock, lambda task: None)
        self.log = log = manager.create(VISITS)
        self.append(1, 3)
        manager.scheduler.wait()
        self.disk.has_room = False
        self.append(2, 2)
        manager.scheduler.wait()
        log.flush_in_background()
        manager.scheduler.wait()
        assert (log.recovery_point, log.epochs.entries) == (5, KNOWN)

    def start(self, directory: Path) -> LogManager:
        config = BrokerConfig.parse({"log.dirs": str(directory)})
        manager = LogManager(config, disk=self.disk, clock=self.clock, rng=random.Random(1))
        manager.startup()
        return manager

    def append(self, epoch: int, count: int) -> None:
        for _ in range(count):
            self.log.append_as_leader(produced(), leader_epoch=epoch)

    def checkpoint(self) -> str:
        list(self.manager.maintenance.checkpoint(RECOVERY_POINTS))
        self.manager.scheduler.wait()
        return (self.directory / RECOVERY_POINTS).read_text()

    def stop(self) -> None:
        self.manager.scheduler.wait()
        self.manager.scheduler.stop()
        self.manager.shutdown()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "data")
    yield made
    made.stop()


def found(manager: LogManager, look: Callable[[Log], object]) -> object:
    try:
        return look(manager.logs[VISITS])
    finally:
        manager.shutdown()


def test_crash_forgets_no_epoch(place, tmp_path):
    assert place.checkpoint() == "0\n1\nvisits 0 0\n"
    shutil.copytree(place.directory, tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    place.disk.has_room = True
    assert found(place.start(tmp_path / "copy"), lambda log: log.epochs.entries) == KNOWN


@pytest.mark.parametrize("has_room", [True, False])
def test_stop_forgets_no_epoch(place, has_room):
    place.disk.has_room = has_room
    place.stop()
    assert (place.directory / ".kafka_cleanshutdown").exists() is has_room
    place.disk.has_room = True
    assert found(place.start(place.directory), lambda log: (log.epochs.entries, log.end_offset)) == (KNOWN, 5)


def test_recovery_point_is_checkpointed_when_the_epochs_are_written(place):
    place.disk.has_room = True
    place.clock.advance(1000)
    place.manager.scheduler.run_due()
    place.manager.scheduler.wait()
    assert (place.directory / "visits-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 3\n"
    assert place.checkpoint() == "0\n1\nvisits 0 5\n"


def test_cut_makes_no_promise_about_epochs_that_are_not_written(place):
    place.log.truncate_to(4)
    assert (place.directory / RECOVERY_POINTS).read_text() == "0\n1\nvisits 0 0\n"
    assert place.log.recovery_point == 4
