"""A crash or an error at every single call of a cleaning: afterwards the log is the old one, the new one, or on its way, never less."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage, MilepostError
from milepost.files import HandlePool
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import Cleaner
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.loading import LogLoader
from milepost.log.log import Log
from milepost.record.control import ControlType
from milepost.segment import names
from milepost.segment.segment import Segment
from milepost.topic_partition import TopicPartition
from tests.log.cleaning.cleaned_logs import NOW, QuickDisk, clean, contents, leftovers, newest_values, put, put_marker

CONFIG = LogConfig.parse({"cleanup.policy": "compact", "segment.bytes": 900, "index.interval.bytes": 100})


class Killed(BaseException):
    """The process is dead: nothing it would have done afterwards happens."""


class FailingDisk(QuickDisk):
    """Fails at the call with number `fail_at` among those that change or sync something; counts them all.

    As a crash it does nothing from then on; as an error it fails once and goes on.
    """

    def __init__(self, fail_at: int = -1, crash: bool = True):
        self.fail_at, self.crash = fail_at, crash
        self.calls = 0

    def step(self) -> None:
        self.calls += 1
        if self.calls == self.fail_at or (self.crash and 0 < self.fail_at < self.calls):
            raise Killed if self.crash else OSError(errno.EIO, os.strerror(errno.EIO))

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        if self.exists(path):
            self.step()
        super().unlink(path)

    def fsync(self, fd: int) -> None:
        self.step()

    def sync_directory(self, path: str) -> None:
        self.step()

    def truncate(self, fd: int, size: int) -> None:
        self.step()
        super().truncate(fd, size)

    def pwrite(self, fd: int, data: bytes, position: int) -> None:
        self.step()
        super().pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: list[bytes], position: int, size: int) -> None:
        self.step()
        super().pwritev(fd, buffers, position, size)

    def set_mtime(self, path: str, seconds: float) -> None:
        self.step()
        super().set_mtime(path, seconds)


def load(directory: Path, disk: QuickDisk, recovery_point: int = 0) -> Log:
    loader = LogLoader(
        str(directory), TopicPartition("kv", 0), CONFIG, HandlePool(disk), ManualClock(NOW + 1000), random.Random(1),
        recovery_point=recovery_point,
    )  # fmt: skip
    log = loader.load()
    log.update_high_watermark(log.end_offset)
    return log


@pytest.fixture(scope="module")
def dirty(tmp_path_factory) -> Path:
    """Six sealed segments: keys, a tombstone, transactions, producers to be kept. The first two are one group, all of it superseded."""
    directory = tmp_path_factory.mktemp("dirty") / "kv-0"
    directory.mkdir()
    log = load(directory, QuickDisk())
    for number in range(10):
        put(log, (f"k{number % 3}", f"v{number}"), timestamp=NOW + number)
        if number == 3:
            log.roll()
    put(log, ("gone", 1))
    log.roll()
    put(log, ("k1", "t"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    put(log, ("k0", "aborted"), producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True)
    put_marker(log, ControlType.COMMIT, 1)
    log.roll()
    put_marker(log, ControlType.ABORT, 2)
    put(log, ("gone", None))
    log.roll()
    for number in range(6):
        put(log, (f"k{number % 4}", f"w{number}"), producer_id=3, producer_epoch=0, base_sequence=number)
    log.roll()
    put(log, ("k0", "x"), ("k1", "x"), ("k2", "x"))
    log.roll()
    put(log, ("active", 1))
    log.close()
    return directory


@pytest.fixture
def copy(dirty, tmp_path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        return Path(shutil.copytree(dirty, tmp_path / name / "kv-0"))

    return make


def run(directory: Path, disk: FailingDisk) -> Log:
    """Load without failures, then clean on the failing disk."""
    fail_at, disk.fail_at = disk.fail_at, -1
    log = load(directory, disk)
    disk.calls, disk.fail_at = 0, fail_at
    Cleaner(OffsetMap(1 << 16)).clean(measure(log, None))
    return log


def calls_of_a_cleaning(directory: Path) -> int:
    disk = FailingDisk()
    run(directory, disk)
    return disk.calls


def facts(log: Log) -> tuple[object, ...]:
    producers = {entry.producer_id: (entry.epoch, entry.last_sequence) for entry in log.producers.producers.values()}
    return log.start_offset, log.end_offset, producers, log.last_stable_offset


def check(log: Log, old: dict[int, object], new: dict[int, object], facts_before: tuple[object, ...]) -> None:
    found = contents(log)
    assert list(found) == sorted(found)
    assert new.items() <= found.items() <= old.items()
    committed = [record.offset for record in log.records(isolation="committed")]
    visible = {offset: found[offset] for offset in committed}
    assert newest_values(visible) == {"k0": "x", "k1": "x", "k2": "x", "k3": "w3", "active": "1"}
    assert facts(log) == facts_before
    assert leftovers(log) == []
    for segment in log.segments:
        segment.check_indexes()
    for offset in found:
        place = log.find(offset=offset)
        assert place is not None
        assert place.offset == offset


@pytest.fixture
def old(copy) -> tuple[dict[int, object], tuple[object, ...]]:
    log = load(copy("old"), QuickDisk())
    return contents(log), facts(log)


@pytest.fixture
def new(copy) -> dict[int, object]:
    return contents(run(copy("new"), FailingDisk()))


def test_cleaning_that_nothing_disturbs(copy, old, new):
    directory = copy("whole")
    log = run(directory, FailingDisk())
    assert len(new) < len(old[0])
    assert log.segments.base_offsets() == [0, 11, 25]
    assert log.segments.first.size == 0
    check(load(directory, QuickDisk()), *old[:1], new, old[1])


def test_kill_at_every_call_of_a_cleaning_leaves_the_old_log_or_the_new_one(copy, old, new):
    total = calls_of_a_cleaning(copy("count"))
    assert total > 60
    for call in range(1, total + 1):
        directory = copy(f"kill{call}")
        with pytest.raises(Killed):
            run(directory, FailingDisk(call))
        again = load(directory, QuickDisk())
        check(again, old[0], new, old[1])
        # And it can be cleaned to the end.
        clean(again)
        assert new.items() <= contents(again).items()
        shutil.rmtree(directory)


def test_kill_at_every_call_with_indexes_that_are_trusted(copy, old, new):
    total = calls_of_a_cleaning(copy("count"))
    for call in range(1, total + 1):
        directory = copy(f"kill{call}")
        with pytest.raises(Killed):
            run(directory, FailingDisk(call))
        check(load(directory, QuickDisk(), recovery_point=25), old[0], new, old[1])
        shutil.rmtree(directory)


def test_kill_again_at_every_call_of_the_loading_that_follows(copy, old, new):
    total = calls_of_a_cleaning(copy("count"))
    for call in range(5, total + 1, 31):
        crashed = copy(f"kill{call}")
        with pytest.raises(Killed):
            run(crashed, FailingDisk(call))
        second = 0
        while True:
            second += 1
            directory = Path(shutil.copytree(crashed, crashed.parent / f"again{second}" / "kv-0"))
            try:
                load(directory, FailingDisk(second), recovery_point=25)
            except Killed:
                check(load(directory, QuickDisk(), recovery_point=25), old[0], new, old[1])
                shutil.rmtree(directory)
            else:
                break


def test_error_at_every_call_of_a_cleaning_fails_it_and_leaves_a_log_that_loads(copy, old, new):
    total = calls_of_a_cleaning(copy("count"))
    for call in range(1, total + 1):
        directory = copy(f"error{call}")
        with pytest.raises((OSError, KafkaStorage)):
            run(directory, FailingDisk(call, crash=False))
        check(load(directory, QuickDisk()), old[0], new, old[1])
        shutil.rmtree(directory)


def test_error_before_the_swap_leaves_the_running_log_as_it_was(copy, old):
    directory = copy("running")
    disk = FailingDisk()
    log = load(directory, disk)
    disk.calls, disk.fail_at, disk.crash = 0, 4, False
    with pytest.raises(OSError, match="Input/output error"):
        Cleaner(OffsetMap(1 << 16)).clean(measure(log, None))
    assert not log.is_failed
    assert (contents(log), leftovers(log)) == (old[0], [])


# The states of the protocol by themselves (rule C-25).


def files_of(directory: Path, base: int) -> list[Path]:
    return [path for path in directory.iterdir() if path.name.startswith(f"{base:020d}.") and path.suffix != ".snapshot"]


@pytest.fixture
def cleaned_aside(copy) -> Path:
    """The dirty log, and beside its segment 0 (four records) the cleaned form of it, named `.cleaned`."""
    directory, other = copy("states"), copy("cleaned")
    run(other, FailingDisk())
    for path in files_of(other, 0):
        if path.suffix != ".deleted":
            shutil.copy(path, directory / f"{path.name}.cleaned")
    return directory


def suffixed(directory: Path, old_suffix: str, new_suffix: str, kinds: tuple[str, ...] = names.SEGMENT_SUFFIXES) -> None:
    for kind in kinds:
        path = directory / f"{0:020d}{kind}{old_suffix}"
        if path.exists():
            path.rename(directory / f"{0:020d}{kind}{new_suffix}")


def test_only_cleaned_files_are_dropped(cleaned_aside, old, new):
    log = load(cleaned_aside, QuickDisk())
    assert contents(log) == old[0]
    assert leftovers(log) == []


def test_swap_beside_cleaned_of_the_same_segment_is_dropped_with_it(cleaned_aside, old):
    suffixed(cleaned_aside, ".cleaned", ".swap", (names.LOG, names.INDEX))
    log = load(cleaned_aside, QuickDisk())
    assert contents(log) == old[0]
    assert leftovers(log) == []


def test_swap_above_the_lowest_cleaned_is_dropped_and_one_below_it_is_finished(cleaned_aside, old):
    # As a split leaves it that was renaming its pieces, the last one first, when the process died.
    suffixed(cleaned_aside, ".cleaned", ".swap")
    for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
        (cleaned_aside / f"{3:020d}{kind}.cleaned").touch()
        (cleaned_aside / f"{5:020d}{kind}.swap").touch()
    log = load(cleaned_aside, QuickDisk())
    assert log.segments.base_offsets()[0] == 0
    assert 3 not in log.segments
    assert 5 not in log.segments
    assert set(contents(log)) < set(old[0])
    assert leftovers(log) == []


def test_all_swap_is_finished(cleaned_aside, old, new):
    suffixed(cleaned_aside, ".cleaned", ".swap")
    log = load(cleaned_aside, QuickDisk())
    check(log, old[0], new, old[1])
    # What the new segment, which is empty, does not reach stays as it was until the next cleaning.
    assert sorted(contents(log))[:2] == [4, 5]


def test_swap_beside_deleted_old_files_is_finished(cleaned_aside, old, new):
    suffixed(cleaned_aside, "", ".deleted")
    suffixed(cleaned_aside, ".cleaned", ".swap")
    check(load(cleaned_aside, QuickDisk()), old[0], new, old[1])


def test_swap_that_got_its_log_renamed_but_not_its_indexes_is_finished(cleaned_aside, old, new):
    suffixed(cleaned_aside, "", ".deleted")
    suffixed(cleaned_aside, ".cleaned", "", (names.LOG,))
    suffixed(cleaned_aside, ".cleaned", ".swap")
    check(load(cleaned_aside, QuickDisk(), recovery_point=25), old[0], new, old[1])


def test_left_over_deleted_files_go_at_the_next_start(copy, old, new):
    directory = copy("left")
    log = run(directory, FailingDisk())
    assert leftovers(log) != []
    check(load(directory, QuickDisk()), old[0], new, old[1])


# The order of names.


class NamingDisk(QuickDisk):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def rename(self, source: str, target: str) -> None:
        self.calls.append(Path(target).name.lstrip("0") or "0")
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self.calls.append("sync")


def test_swap_renames_new_ones_last_first_then_old_ones_then_new_ones_first_first(tmp_path):
    disk = NamingDisk()
    directory = tmp_path / "kv-0"
    directory.mkdir()
    log = load(directory, disk)
    for number in range(2):
        put(log, ("k", number))
        log.roll()
    new = []
    for base in (0, 1):
        segment = Segment.create(log.pool, log.directory, base, CONFIG, log.clock, random.Random(0), suffix=names.CLEANED)
        segment.seal()
        new.append(segment)
    disk.calls.clear()
    log.replace_segments(new, list(log.segments)[:2])
    stems = ("1", "")  # base offsets, without their zeros
    kinds = (".log", ".index", ".timeindex")
    phases = [
        [f"{stem}{kind}.swap" for stem in stems for kind in kinds],
        [f"{stem}{kind}.deleted" for stem in reversed(stems) for kind in kinds],
        [f"{stem}{kind}" for stem in reversed(stems) for kind in kinds],
    ]
    assert [name for name in disk.calls if name != "sync"] == [name for phase in phases for name in phase]
    for phase in phases:
        assert "sync" in disk.calls[disk.calls.index(phase[-1]) + 1 :][:1], "each phase is durable before the next begins"
    assert log.segments.base_offsets() == [0, 1, 2]


def test_failed_swap_takes_the_log_offline(copy):
    directory = copy("offline")
    disk = FailingDisk()
    log = load(directory, disk)
    renames = 0
    real = QuickDisk.rename

    def fail_the_second(source: str, target: str) -> None:
        nonlocal renames
        renames += 1
        if renames == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(disk, source, target)

    disk.rename = fail_the_second  # type: ignore[method-assign]
    with pytest.raises(KafkaStorage, match="offline"):
        Cleaner(OffsetMap(1 << 16)).clean(measure(log, None))
    assert log.is_failed
    with pytest.raises(MilepostError):
        put(log, ("k", 1))
