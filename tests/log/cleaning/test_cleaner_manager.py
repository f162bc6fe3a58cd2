"""Which log is cleaned next, what keeps it from being cleaned, and what happens to the checkpoints."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import CorruptRecord
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner_manager import CleanerManager, Throttle
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.topic_partition import TopicPartition
from tests.log.cleaning.cleaned_logs import NOW, QuickDisk, contents, put

KV = TopicPartition("kv", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def manager(clock) -> CleanerManager:
    return CleanerManager(clock, BrokerConfig.parse({"log.cleaner.dedupe.buffer.size": 2 << 20}))


@pytest.fixture
def logs(tmp_path, clock):
    opened: dict[TopicPartition, Log] = {}

    def open_one(topic: str = "kv", **config: object) -> Log:
        settings = {"cleanup.policy": "compact"} | {name.replace("_", "."): value for name, value in config.items()}
        directory = tmp_path / topic / f"{topic}-0"
        log = open_log(str(directory), "a", settings, clock=clock, disk=QuickDisk())
        opened[log.partition] = log
        return log

    open_one.opened = opened  # type: ignore[attr-defined]
    yield open_one
    for log in opened.values():
        log.close()


class Checkpoints(dict[TopicPartition, int]):
    def write(self, partition: TopicPartition, offset: int) -> None:
        self[partition] = offset


def segment(log: Log, *keys: str, timestamp: int = NOW) -> None:
    """A sealed segment with one batch per key."""
    for key in keys:
        put(log, (key, "value"), timestamp=timestamp)
    log.roll()


# Choosing.


def test_filthiest_log_goes_first_and_is_then_in_progress(logs, manager):
    cleaner_log, filthy = logs("half"), logs("filthy")
    segment(cleaner_log, "a", "b")
    segment(cleaner_log, "a", "b", "c")
    segment(filthy, "a", "b")
    checkpoints = Checkpoints({cleaner_log.partition: 2})
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert work is not None
    assert work.log is filthy
    second = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert second is not None
    assert second.log is cleaner_log
    assert manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None


def test_log_that_is_only_deleted_by_age_is_never_chosen(logs, manager):
    log = logs(cleanup_policy="delete")
    segment(log, "a", "a")
    checkpoints = Checkpoints()
    assert manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None


def test_cleaner_that_is_switched_off_chooses_nothing(logs, clock):
    segment(logs(), "a", "a")
    checkpoints = Checkpoints()
    off = CleanerManager(clock, BrokerConfig.parse({"log.cleaner.enable": "false"}))
    assert off.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None


def test_wrong_checkpoint_is_corrected_even_when_nothing_is_due(logs, manager, caplog):
    log = logs(min_cleanable_dirty_ratio=1.0)
    segment(log, "a", "b")
    checkpoints = Checkpoints({KV: 200})
    assert manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None
    assert checkpoints == {KV: 0}
    assert "checkpoint 200 lies outside 0 to 2" in caplog.text


# Cleaning.


def test_cleaning_moves_the_checkpoint_and_leaves_no_state(logs, manager):
    log = logs()
    segment(log, "a", "b", "a")
    checkpoints = Checkpoints()
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is log
    assert checkpoints == {KV: 3}
    assert sorted(contents(log)) == [1, 2]
    assert manager.last_stats[KV].filter.records_kept == 2
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None


def test_compacted_log_with_deletion_loses_old_segments_after_the_cleaning(logs, manager):
    log = logs(cleanup_policy="compact,delete", retention_ms=1000)
    segment(log, "a", "b", timestamp=NOW - 5000)
    segment(log, "c", timestamp=NOW)
    checkpoints = Checkpoints({KV: 3})
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None
    assert (log.start_offset, sorted(contents(log))) == (2, [2])


def test_damaged_log_becomes_uncleanable_and_others_are_still_cleaned(logs, manager, caplog):
    bad, good = logs("bad"), logs("good")
    segment(bad, "a", "b", "c")
    segment(good, "a", "b")
    flip_a_byte(bad)
    checkpoints = Checkpoints({good.partition: 1})
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is bad
    assert "CRC-32C" in manager.uncleanable[bad.partition]
    assert checkpoints[bad.partition] == 0
    checkpoints[good.partition] = 0
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is good
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None
    manager.forget(bad.partition)
    assert manager.uncleanable == {}


def flip_a_byte(log: Log) -> None:
    first = log.segments.first
    with open(first.log.path, "r+b") as file:
        file.seek(first.size - 3)
        byte = file.read(1)[0]
        file.seek(first.size - 3)
        file.write(bytes([byte ^ 1]))


def test_full_disk_is_tried_again_later(logs, manager, monkeypatch, caplog):
    log = logs()
    segment(log, "a", "a")
    checkpoints = Checkpoints()
    real = log.pool.disk.pwritev

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(log.pool.disk, "pwritev", full)
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is log
    assert (manager.uncleanable, log.is_failed, checkpoints) == ({}, False, {KV: 0})
    assert "tried again later" in caplog.text
    assert not list(Path(log.directory).glob("*.cleaned"))
    monkeypatch.setattr(log.pool.disk, "pwritev", real)
    manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert (checkpoints, sorted(contents(log))) == ({KV: 2}, [1])


def test_failing_disk_takes_the_log_offline(logs, manager, monkeypatch):
    log = logs()
    segment(log, "a", "a")
    checkpoints = Checkpoints()

    def broken(*given: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(log.pool.disk, "fsync", broken)
    manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert log.is_failed
    assert manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None


def test_error_that_nobody_foresaw_makes_only_that_log_uncleanable(logs, manager, monkeypatch, caplog):
    log = logs()
    segment(log, "a", "a")
    checkpoints = Checkpoints()
    monkeypatch.setattr(manager.cleaner, "clean", lambda work: 1 // 0)
    manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert "division" in manager.uncleanable[KV]
    assert "Traceback" in caplog.text


class Sleeper:
    """Stands still while it sleeps, and calls back at a moment of that."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.at: tuple[int, Callable[[], None]] | None = None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        if self.at is not None and len(self.slept) == self.at[0]:
            self.at[1]()


@pytest.fixture
def sleeper(manager) -> Sleeper:
    sleeper = Sleeper()
    manager._throttle = Throttle(1000.0, sleeper.monotonic, sleeper.sleep)
    return sleeper


def test_speed_limit_counts_what_is_read_and_what_is_written(logs, manager, sleeper):
    log = logs()
    segment(log, "a", "b")
    size = log.segments.first.size
    checkpoints = Checkpoints()
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is log
    # Once for the map, once to copy; both records are the newest of their keys, so that all is written again.
    assert sleeper.now == pytest.approx(3 * size / 1000)
    assert max(sleeper.slept) <= 0.1


def test_slow_cleaning_notices_while_it_sleeps_that_somebody_needs_the_log(logs, manager, sleeper):
    log = logs()
    segment(log, *[f"k{number}" for number in range(20)])
    checkpoints = Checkpoints()
    sleeper.at = (3, lambda: manager.pause(KV))
    manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert (len(sleeper.slept), checkpoints) == (3, {})


def test_speed_limit_comes_from_the_configuration(clock):
    limited = CleanerManager(clock, BrokerConfig.parse({"log.cleaner.io.max.bytes.per.second": 1000.0}))
    assert limited._throttle.bytes_per_second == 1000.0


# Keeping the cleaner away.


def test_retention_leaves_alone_what_is_being_cleaned_or_paused(logs, manager):
    log = logs(cleanup_policy="compact,delete", retention_ms=1000)
    segment(log, "a", "b", timestamp=NOW - 5000)
    checkpoints = Checkpoints()
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    list(manager.retain(logs.opened))
    assert log.start_offset == 0
    manager.clean(work, checkpoints.write)
    manager.pause(KV)
    list(manager.retain(logs.opened))
    assert log.start_offset == 0
    manager.resume(KV)
    list(manager.retain(logs.opened))
    assert log.start_offset == 2


def test_pauses_are_counted(logs, manager):
    segment(logs(), "a", "a")
    checkpoints = Checkpoints()
    manager.pause(KV)
    manager.pause(KV)
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None
    manager.resume(KV)
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is None
    manager.resume(KV)
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is not None


def test_cleaning_that_is_aborted_swaps_nothing_and_moves_no_checkpoint(logs, manager, caplog):
    caplog.set_level("INFO")
    log = logs()
    segment(log, "a", "a")
    before = contents(log)
    checkpoints = Checkpoints()
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    manager.pause(KV)
    manager.resume(KV)
    assert manager.clean(work, checkpoints.write) is None
    assert (checkpoints, contents(log)) == ({}, before)
    assert "cleaning aborted: the log is needed" in caplog.text


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "broken"), CorruptRecord("not what was there")])
def test_what_an_aborted_cleaning_met_says_nothing_about_the_log(logs, manager, failure):
    log = logs()
    segment(log, "a", "a")
    checkpoints = Checkpoints()
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    manager.pause(KV)
    manager.resume(KV)
    manager.cleaned(work, failure, checkpoints.write)
    assert (log.is_failed, manager.uncleanable) == (False, {})
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is log


@pytest.mark.parametrize("step", range(1, 8))
def test_abort_at_any_step_leaves_the_log_whole(logs, manager, step):
    log = logs()
    segment(log, "a", "b", "a")
    segment(log, "b")
    checkpoints = Checkpoints()
    steps = 0
    real = manager.cleaner.on_owner

    def on_owner(task):
        real(task)
        count()

    def count(read: int = 0) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            manager.pause(KV)
        manager._advance(read)

    manager.cleaner.on_owner, manager.cleaner.advance = on_owner, count
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert work is not None
    manager.clean(work, checkpoints.write)
    assert {key for key, _ in contents(log).values()} == {"a", "b"}
    assert not [path for path in Path(log.directory).iterdir() if path.suffix in (".cleaned", ".swap")]
    assert KV not in manager.uncleanable


def test_partition_forgotten_while_it_is_cleaned_leaves_no_trace_behind(logs, manager):
    log = logs()
    segment(log, "a", "a")
    checkpoints = Checkpoints()
    work = manager.grab_filthiest(logs.opened, checkpoints.get, checkpoints.write)
    assert work is not None
    manager.forget(KV)
    manager.clean(work, checkpoints.write)
    assert (checkpoints, sorted(contents(log))) == ({}, [0, 1])
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is log


def test_damage_while_measuring_is_no_reason_to_stop_either(logs, manager, monkeypatch):
    bad, good = logs("bad"), logs("good")
    segment(bad, "a", "a")
    segment(good, "a", "a")
    real = measure

    def failing(log: Log, checkpoint: int | None):
        if log is bad:
            raise CorruptRecord("the first header cannot be read")
        return real(log, checkpoint)

    monkeypatch.setattr("milepost.log.cleaning.cleaner_manager.measure", failing)
    checkpoints = Checkpoints()
    assert manager.clean_filthiest(logs.opened, checkpoints.get, checkpoints.write) is good
    assert list(manager.uncleanable) == [bad.partition]
