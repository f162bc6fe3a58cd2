"""Log managers whose disks and background work are held back, one after the other on one directory."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.log.cleaning.cleaned_logs import contents
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


def made_again(manager: LogManager) -> Callable[[], None]:
    def make() -> None:
        manager.delete(VISITS)
        put(manager.create(VISITS), *(f"new{number}" for number in range(6)))

    return make


NEW = [f"new{number}" for number in range(6)]
