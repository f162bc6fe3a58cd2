"""A data directory: owning it, how it was left, its checkpoints, and the order in which things are written."""

from __future__ import annotations

import logging
import os

import pytest

from milepost.clock import ManualClock
from milepost.errors import DirectoryLocked, KafkaStorage
from milepost.files import Disk, Overlay
from milepost.log.directory.data_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, DataDirectory
from milepost.log.directory.meta_properties import MetaProperties
from milepost.topic_partition import TopicPartition
from tests.golden_fixture import all_cases

VISITS = TopicPartition("page_visits", 0)
CHECKPOINTS = [
    ("recovery_points", "recovery-point-offset-checkpoint"),
    ("log_starts", "log-start-offset-checkpoint"),
    ("high_watermarks", "replication-offset-checkpoint"),
    ("cleaner_offsets", "cleaner-offset-checkpoint"),
]


class RecordingDisk(Disk):
    """Notes every call that changes something, by the last part of its path."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._names: dict[int, str] = {}

    def _note(self, call: str, path: str) -> None:
        self.calls.append(f"{call} {os.path.basename(path)}")

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._names[fd] = path
        if flags & os.O_CREAT:
            self._note("create", path)
        return fd

    def lock(self, fd: int) -> bool:
        self._note("lock", self._names[fd])
        return super().lock(fd)

    def pwrite(self, fd, data, position) -> None:
        self._note("write", self._names[fd])
        super().pwrite(fd, data, position)

    def fsync(self, fd: int) -> None:
        self._note("fsync", self._names[fd])
        super().fsync(fd)

    def rename(self, source: str, target: str) -> None:
        self._note("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._note("unlink", path)

    def mkdir(self, path: str) -> None:
        self._note("mkdir", path)
        super().mkdir(path)

    def sync_directory(self, path: str) -> None:
        self._note("sync", path)
        super().sync_directory(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def directory(path):
    """`directory()` is the directory, opened; whatever is still open at the end is let go."""
    opened = []

    def make(disk: Disk | None = None) -> DataDirectory:
        made = DataDirectory(str(path), disk or Disk(), ManualClock(0))
        made.open()
        opened.append(made)
        return made

    yield make
    for made in opened:
        made.close(False, {})


def contents(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


# Owning it.


def test_new_directory_is_made_with_its_parents_and_holds_a_lock(tmp_path):
    path = tmp_path / "a" / "b" / "data"
    directory = DataDirectory(str(path), Disk(), ManualClock(0))
    assert not directory.is_open
    directory.open()
    assert directory.is_open
    assert contents(path) == {".lock": b"%d\n" % os.getpid()}
    assert not directory.was_clean
    directory.close(False, {})
    assert contents(path) == {".lock": b""}


def test_relative_path_is_made_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = DataDirectory("milepost-data", Disk(), ManualClock(0))
    directory.open()
    directory.close(True, {})
    assert sorted(contents(tmp_path / "milepost-data")) == [".kafka_cleanshutdown", ".lock"]


def test_missing_directory_is_refused_when_it_may_not_be_made(path):
    with pytest.raises(KafkaStorage, match="data: the data directory cannot be used: No such file or directory"):
        DataDirectory(str(path), Disk(), ManualClock(0)).open(create=False)


def test_file_in_place_of_the_directory_is_refused(path):
    path.write_bytes(b"")
    with pytest.raises(KafkaStorage, match="cannot be used: Not a directory"):
        DataDirectory(str(path), Disk(), ManualClock(0)).open()


def test_directory_that_cannot_be_written_is_refused(path, monkeypatch):
    path.mkdir()

    def read_only(self, path, flags=os.O_RDONLY):
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(Disk, "open", read_only)
    with pytest.raises(KafkaStorage, match="cannot be used: Read-only file system"):
        DataDirectory(str(path), Disk(), ManualClock(0)).open()


def test_second_owner_is_refused_until_the_first_lets_go(path, directory):
    first = directory()
    second = DataDirectory(str(path), Disk(), ManualClock(0))
    with pytest.raises(DirectoryLocked, match=f"pid {os.getpid()}"):
        second.open()
    assert not second.is_open
    first.close(False, {})
    second.open()
    second.close(False, {})


def test_refused_owner_leaves_the_marker(path, directory):
    first = directory()
    (path / ".kafka_cleanshutdown").write_bytes(b"")
    with pytest.raises(DirectoryLocked):
        DataDirectory(str(path), Disk(), ManualClock(0)).open()
    assert (path / ".kafka_cleanshutdown").exists()
    first.close(False, {})


def test_directory_that_fails_to_open_is_not_locked(path):
    path.mkdir()
    (path / "recovery-point-offset-checkpoint").mkdir()
    directory = DataDirectory(str(path), Disk(), ManualClock(0))
    with pytest.raises(KafkaStorage, match="not a regular file"):
        directory.open()
    (path / "recovery-point-offset-checkpoint").rmdir()
    directory.open()
    directory.close(False, {})


# How it was left.


def test_clean_stop_is_seen_once(path, directory):
    directory().close(True, {"page_visits-0": (1250, 91873)})
    assert (path / ".kafka_cleanshutdown").read_bytes() == (
        b'{"version":0,"brokerEpoch":-1,"milepost":{"page_visits-0":[1250,91873]}}'
    )
    again = directory()
    assert again.was_clean
    assert not (path / ".kafka_cleanshutdown").exists()
    again.close(False, {})
    assert not directory().was_clean


def test_log_that_changed_behind_the_marker_is_not_clean(directory):
    directory().close(True, {"page_visits-0": (1250, 91873)})
    again = directory()
    assert again.marked == {"page_visits-0": (1250, 91873)}
    assert again.marker_agrees(VISITS, 1250, 91873)
    assert again.marker_agrees(VISITS, None, 91873)
    assert not again.marker_agrees(VISITS, None, 91800)
    assert not again.marker_agrees(TopicPartition("other", 0), None, 0)


def test_marker_of_kafka_makes_every_log_clean(path, directory):
    path.mkdir()
    (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":33}')
    opened = directory()
    assert opened.was_clean
    assert opened.broker_epoch == 33
    assert opened.marked == {}
    assert opened.marker_agrees(VISITS, None, 5)


def test_without_a_marker_no_log_is_clean(directory):
    opened = directory()
    assert not opened.marker_agrees(VISITS, None, 0)
    assert opened.broker_epoch == -1
    assert opened.marked == {}


def test_damaged_marker_is_removed_and_not_believed(path, directory):
    path.mkdir()
    (path / ".kafka_cleanshutdown").write_bytes(bytes(30))
    assert not directory().was_clean
    assert not (path / ".kafka_cleanshutdown").exists()


def test_closing_twice_writes_one_marker(path, directory):
    opened = directory()
    opened.close(True, {})
    (path / ".kafka_cleanshutdown").unlink()
    opened.close(True, {})
    assert not (path / ".kafka_cleanshutdown").exists()


def test_marker_that_cannot_be_written_still_lets_go(path, directory, monkeypatch):
    opened = directory()

    def full(self, fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Disk, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        opened.close(True, {})
    monkeypatch.undo()
    assert not directory().was_clean


# The order of writes.


def test_lock_comes_before_everything_and_the_marker_is_gone_for_good_before_anything_is_read(path, directory):
    directory().close(True, {})
    (path / "recovery-point-offset-checkpoint").write_bytes(b"damaged")
    disk = RecordingDisk()
    directory(disk)
    assert disk.calls[:5] == ["create .lock", "lock .lock", "write .lock", "unlink .kafka_cleanshutdown", "sync data"]
    assert disk.calls[5:] == [
        "create recovery-point-offset-checkpoint.bad.tmp",
        "write recovery-point-offset-checkpoint.bad.tmp",
        "fsync recovery-point-offset-checkpoint.bad.tmp",
        "rename recovery-point-offset-checkpoint.bad",
        "sync data",
    ]


def test_new_directory_is_synced_into_its_parent(path, directory):
    disk = RecordingDisk()
    directory(disk)
    assert disk.calls[:3] == ["mkdir data", f"sync {path.parent.name}", "create .lock"]


def test_marker_is_whole_and_synced_before_its_name_appears(directory):
    disk = RecordingDisk()
    opened = directory(disk)
    opened.write(RECOVERY_POINTS, {VISITS: 5})
    disk.calls.clear()
    opened.close(True, {"page_visits-0": (5, 100)})
    assert disk.calls == [
        "create .kafka_cleanshutdown.tmp",
        "write .kafka_cleanshutdown.tmp",
        "fsync .kafka_cleanshutdown.tmp",
        "rename .kafka_cleanshutdown",
        "sync data",
    ]


# Checkpoints.


@pytest.mark.parametrize(("attribute", "name"), CHECKPOINTS)
def test_checkpoint_is_written_and_comes_back(path, directory, attribute, name):
    opened = directory()
    assert getattr(opened, attribute) == {}
    opened.write(name, {VISITS: 1250})
    assert (path / name).read_bytes() == b"0\n1\npage_visits 0 1250\n"
    assert getattr(opened, attribute) == {VISITS: 1250}
    opened.close(True, {})
    assert getattr(directory(), attribute) == {VISITS: 1250}


def test_checkpoint_replaces_the_whole_file(path, directory):
    opened = directory()
    opened.write(LOG_STARTS, {VISITS: 5})
    opened.write(LOG_STARTS, {})
    assert opened.log_starts == {}
    assert (path / "log-start-offset-checkpoint").read_bytes() == b"0\n0\n"


def test_checkpoints_that_wait_together_are_written_once(path, directory):
    """Ten thousand logs that move their starts in one pass would else be ten thousand files of ten thousand lines."""
    disk = RecordingDisk()
    opened = directory(disk)
    writes = [opened.publish(LOG_STARTS, {VISITS: start}) for start in range(1, 6)]
    for write in writes:
        write()
        assert (path / LOG_STARTS).read_bytes() == b"0\n1\npage_visits 0 5\n"
    assert disk.calls.count(f"rename {LOG_STARTS}") == 1


@pytest.mark.parametrize(("attribute", "name"), CHECKPOINTS)
def test_damaged_checkpoint_counts_as_empty_and_is_kept_aside(path, directory, caplog, attribute, name):
    path.mkdir()
    for _, other in CHECKPOINTS:
        (path / other).write_bytes(b"0\n1\npage_visits 0 7\n")
    (path / name).write_bytes(b"0\n2\npage_visits 0 7\n")
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        opened = directory()
    for other, _ in CHECKPOINTS:
        assert getattr(opened, other) == ({} if other == attribute else {VISITS: 7})
    assert (path / f"{name}.bad").read_bytes() == b"0\n2\npage_visits 0 7\n"
    assert f"{name}.bad" in caplog.text


# Whose it is.


def test_identity_is_written_and_compared(path, directory):
    opened = directory()
    assert opened.read_meta() is None
    opened.claim("ours", 1, version=1)
    assert opened.read_meta() == MetaProperties(1, "ours", 1, None)
    opened.claim("ours", 1)
    with pytest.raises(KafkaStorage, match=r"meta\.properties: the directory belongs to cluster ours, expected theirs"):
        opened.claim("theirs", 1)


# Looking without owning.


def test_peek_changes_nothing_beside_a_running_owner(path, directory):
    opened = directory()
    opened.write(HIGH_WATERMARKS, {VISITS: 9})
    (path / "recovery-point-offset-checkpoint").write_bytes(b"damaged")
    (path / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":3}')
    before = contents(path)
    seen = DataDirectory.peek(str(path), Disk())
    assert seen.high_watermarks == {VISITS: 9}
    assert seen.recovery_points == {}
    assert seen.was_clean
    assert not seen.is_open
    seen.close(True, {})
    assert contents(path) == before
    # Nobody closed a descriptor of the lock file on the way, which would have released the lock.
    with pytest.raises(DirectoryLocked):
        DataDirectory(str(path), Disk(), ManualClock(0)).open()


def test_peek_at_nothing_sees_nothing(path):
    seen = DataDirectory.peek(str(path), Disk())
    assert (seen.was_clean, seen.recovery_points, seen.read_meta()) == (False, {}, None)


@pytest.mark.parametrize("case", all_cases("unclean", "log_start"))
def test_directories_of_real_brokers_are_seen_as_they_were_left(golden, case):
    logdir = golden(case) / "logdir"
    seen = DataDirectory.peek(str(logdir), Overlay())
    assert seen.was_clean == (logdir / ".kafka_cleanshutdown").exists()
    assert len(seen.log_starts) == max(0, len((logdir / "log-start-offset-checkpoint").read_text().splitlines()) - 2)
