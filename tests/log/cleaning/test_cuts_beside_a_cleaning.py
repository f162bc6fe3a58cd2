"""A log that is cut, emptied or given another cleanup.policy while it is being cleaned, or after it was cleaned."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.log.cleaning.cleanable import LogToClean
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.log.open import open_log
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.log.cleaning.cleaned_logs import NOW, contents, leftovers, put
from tests.quick_disk import QuickDisk

KV = TopicPartition("kv", 0)
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "file.delete.delay.ms": 0}
NEW = {7: ("new", "7"), 8: ("new", "8")}


@pytest.fixture
def started(tmp_path):
    managers: list[LogManager] = []

    def start() -> LogManager:
        for manager in managers:
            manager.shutdown()
        config = BrokerConfig.parse({"log.dirs": str(tmp_path), "log.cleaner.dedupe.buffer.size": 2 << 20})
        manager = LogManager(config, {"kv": COMPACTED}, disk=QuickDisk(), clock=ManualClock(NOW), rng=random.Random(1))
        manager.startup()
        managers.append(manager)
        return manager

    yield start
    managers[-1].shutdown()


def filled(manager: LogManager) -> Log:
    """Offsets 0 to 19, each with a key of its own, in sealed segments of five, and 20 in the active one."""
    log = manager.create(KV)
    for number in range(21):
        put(log, (f"k{number}", f"old {number}"))
        if number % 5 == 4:
            log.roll()
    return log


def old(*offsets: int) -> dict[int, tuple[str, str]]:
    return {offset: (f"k{offset}", f"old {offset}") for offset in offsets}


def follow(log: Log, *offsets: int, key: bytes = b"new") -> None:
    """What a new leader has at these offsets."""
    for offset in offsets:
        record = Record(offset, NOW, key, str(offset).encode())
        log.append_as_follower(build_batch([record], base_offset=offset, partition_leader_epoch=1))
    log.update_high_watermark(log.end_offset)


def end_of(looking: Generator[None, None, LogToClean | None]) -> LogToClean | None:
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return end.value


def clean_with(manager: LogManager, step: int, event: Callable[[], object]) -> bool:
    """One cleaning; before its `step`-th step on the owner's thread something else happens there. Whether it came to that."""
    steps = 0

    def on_owner(task: Callable[[], None]) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            event()
        task()

    manager.cleaner.cleaner.on_owner = on_owner
    manager.clean()
    manager.cleaner.cleaner.on_owner = lambda task: task()
    return steps >= step


@pytest.mark.parametrize("step", range(1, 9))
def test_cut_at_any_step_of_a_cleaning_stays_a_cut(started, step):
    manager = started()
    log = filled(manager)

    def cut() -> None:
        log.truncate_to(7)
        follow(log, 7, 8)

    happened = clean_with(manager, step, cut)
    expected = old(*range(7)) | NEW if happened else old(*range(21))
    assert contents(log) == expected
    assert contents(started().logs[KV]) == expected
    assert happened or step > 6


@pytest.mark.parametrize("step", range(1, 7))
def test_log_that_is_emptied_at_any_step_of_a_cleaning_holds_only_what_comes_after(started, step):
    manager = started()
    log = filled(manager)

    def empty() -> None:
        log.truncate_fully_and_start_at(5)
        follow(log, 5, 6)

    assert clean_with(manager, step, empty)
    expected = {5: ("new", "5"), 6: ("new", "6")}
    assert contents(log) == expected
    again = started().logs[KV]
    assert (contents(again), again.start_offset, again.end_offset) == (expected, 5, 7)


@pytest.mark.parametrize("step", range(1, 7))
def test_segments_deleted_after_compact_became_delete_do_not_come_back(started, step):
    manager = started()
    log = filled(manager)

    def delete_instead() -> None:
        log.update_config(log.config.override({"cleanup.policy": "delete", "retention.bytes": str(log.segments.active.size * 3)}))
        for _ in manager.maintenance.retain():
            pass

    assert clean_with(manager, step, delete_instead)
    assert log.start_offset >= 10 or step > 2, "from the third step on all is one segment, which is too young to go"
    assert log.segments.first.base_offset == log.start_offset
    assert min(contents(log)) >= log.start_offset
    manager.scheduler.run_due()
    assert min(int(path.name[:20]) for path in Path(log.directory).glob("*.log*")) == log.start_offset
    assert leftovers(log) == []


def test_partition_is_cleaned_again_after_a_cut_or_a_change_of_policy_ended_a_cleaning(started):
    manager = started()
    log = filled(manager)
    clean_with(manager, 2, lambda: log.truncate_to(7))
    follow(log, 7, 8)
    log.roll()
    manager.clean()
    assert contents(log) == old(*range(7)) | {8: NEW[8]}
    follow(log, 9)
    log.roll()
    compact = log.config
    delete = compact.override({"cleanup.policy": "delete"})
    clean_with(manager, 2, lambda: (log.update_config(delete), log.update_config(compact)))
    assert contents(log) == old(*range(7)) | {8: NEW[8], 9: ("new", "9")}
    manager.clean()
    assert contents(log) == old(*range(7)) | {9: ("new", "9")}


def test_what_is_written_again_behind_a_cut_is_cleaned_though_the_old_was_clean(started):
    manager = started()
    log = filled(manager)
    log.roll()
    manager.clean()
    log.truncate_to(2)
    follow(log, *range(2, 19))
    follow(log, *range(19, 32), key=b"other")
    log.roll()
    manager.clean()
    assert contents(log) == old(0, 1) | {18: ("new", "18"), 31: ("other", "31")}


def test_cleaners_checkpoint_is_lowered_before_the_cut_so_that_a_crash_in_between_costs_no_cleaning(started):
    manager = started()
    log = filled(manager)
    log.roll()
    manager.clean()
    seen = []
    rename = manager.disk.rename

    def note(old_path: str, new_path: str) -> None:
        seen.append((new_path[-8:], checkpoint()))
        rename(old_path, new_path)

    def checkpoint() -> str:
        return Path(manager.directories[0].path, "cleaner-offset-checkpoint").read_text().split("\n")[2]

    manager.disk.rename = note
    assert checkpoint() == "kv 0 21"
    log.truncate_to(2)
    assert {at for name, at in seen if name == ".deleted"} == {"kv 0 0"}


@pytest.mark.parametrize("piece", range(1, 4))
def test_cut_while_the_filthiest_log_is_looked_for_leaves_the_last_segment_to_appends(started, piece):
    manager = started()
    log = filled(manager)
    manager.create(TopicPartition("kv", 1))
    looking = manager.cleaner.look_for_filthiest(manager.logs, manager.cleaner_offset, manager.write_cleaner_offset)
    for _ in range(piece):
        next(looking)
    log.truncate_to(7)
    follow(log, 7, 8)
    work = end_of(looking)
    if work is not None:
        manager.cleaner.clean(work, manager.write_cleaner_offset)
    follow(log, 9)
    expected = old(*range(7)) | NEW | {9: ("new", "9")}
    assert contents(log) == expected
    assert contents(started().logs[KV]) == expected


def test_log_that_is_cut_while_it_is_open_on_its_own_is_cleaned_from_there(started, tmp_path):
    manager = started()
    log = filled(manager)
    log.roll()
    manager.clean()
    manager.shutdown()
    with open_log(str(tmp_path / "kv-0"), "a", COMPACTED, clock=ManualClock(NOW), disk=QuickDisk(), rng=random.Random(1)) as log:
        log.truncate_to(2)
        follow(log, *range(2, 19))
        follow(log, *range(19, 32), key=b"other")
        log.roll()
    manager = started()
    manager.clean()
    assert contents(manager.logs[KV]) == old(0, 1) | {18: ("new", "18"), 31: ("other", "31")}


def test_log_whose_end_was_damaged_is_cleaned_from_where_recovery_cut_it(started, tmp_path):
    manager = started()
    log = filled(manager)
    log.roll()
    manager.clean()
    manager.shutdown()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    path = Path(log.segments.first.log.path)
    os.truncate(path, path.stat().st_size // 2)
    manager = started()
    log = manager.logs[KV]
    end = log.end_offset
    assert 0 < end < 20
    follow(log, *range(end, 20))
    follow(log, *range(20, 32), key=b"other")
    log.roll()
    manager.clean()
    assert contents(log) == old(*range(end)) | {19: ("new", "19"), 31: ("other", "31")}
