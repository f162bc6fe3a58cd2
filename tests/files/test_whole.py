"""Small files, read and replaced as a whole."""

from __future__ import annotations

import os

import pytest

from milepost.errors import KafkaStorage
from milepost.files import Disk, make_directories, opened, read_file, remove_file, replace_file


class RecordingDisk(Disk):
    """Notes what is done, by the names of the files."""

    def __init__(self):
        self.calls = []
        self.names = {}

    def note(self, call, path):
        self.calls.append(f"{call} {os.path.basename(path)}")

    def open(self, path, flags=os.O_RDONLY):
        fd = super().open(path, flags)
        self.names[fd] = path
        self.note("open", path)
        return fd

    def pwrite(self, fd, data, position):
        super().pwrite(fd, data, position)
        self.note("pwrite", self.names[fd])

    def fsync(self, fd):
        super().fsync(fd)
        self.note("fsync", self.names[fd])

    def rename(self, source, target):
        super().rename(source, target)
        self.note("rename", target)

    def sync_directory(self, path):
        super().sync_directory(path)
        self.note("sync", path)


def test_replaced_file_is_written_beside_synced_renamed_and_its_name_synced(tmp_path):
    disk, path = RecordingDisk(), tmp_path / "checkpoint"
    path.write_bytes(b"old")
    replace_file(disk, str(path), b"new content")
    assert path.read_bytes() == b"new content"
    assert disk.calls == [
        "open checkpoint.tmp",
        "pwrite checkpoint.tmp",
        "fsync checkpoint.tmp",
        "rename checkpoint",
        f"sync {tmp_path.name}",
    ]
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_left_over_temporary_file_is_overwritten_whole(tmp_path):
    (tmp_path / "checkpoint.tmp").write_bytes(b"a longer text from before a crash")
    replace_file(Disk(), str(tmp_path / "checkpoint"), b"new")
    assert (tmp_path / "checkpoint").read_bytes() == b"new"


def test_failed_write_leaves_the_old_content(tmp_path):
    class FullDisk(Disk):
        def pwrite(self, fd, data, position):
            raise OSError(28, "No space left on device")

    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        replace_file(FullDisk(), str(path), b"new")
    assert path.read_bytes() == b"old"


def test_file_is_read_whole(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789" * 1000)
    assert read_file(Disk(), str(tmp_path / "file")) == b"0123456789" * 1000


def test_larger_file_than_expected_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(KafkaStorage, match="1099511627776 bytes, where at most 268435456 are expected"):
        read_file(Disk(), str(path))


def test_fifo_and_directory_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(KafkaStorage, match="not a regular file"):
            read_file(Disk(), str(tmp_path / name))


def test_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "checkpoint").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        read_file(Disk(), str(tmp_path / "checkpoint"))


def test_remove_says_whether_there_was_something_to_remove(tmp_path):
    (tmp_path / "file").touch()
    assert remove_file(Disk(), str(tmp_path / "file")) is True
    assert remove_file(Disk(), str(tmp_path / "file")) is False


def test_descriptor_is_closed_when_its_block_fails(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(ZeroDivisionError), opened(Disk(), str(tmp_path / "file")) as fd:
        raise ZeroDivisionError
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


class RivalDisk(RecordingDisk):
    """Somebody else makes `taken` in the moment before we do."""

    taken = ""

    def mkdir(self, path):
        if os.path.basename(path) == self.taken:
            super().mkdir(path)
        super().mkdir(path)
        self.note("mkdir", path)


def test_each_missing_directory_is_durable_before_the_one_in_it(tmp_path):
    disk = RivalDisk()
    make_directories(disk, str(tmp_path / "lake" / "visits"))
    make_directories(disk, str(tmp_path / "lake" / "visits"))
    assert disk.calls == ["mkdir lake", f"sync {tmp_path.name}", "mkdir visits", "sync lake"]


def test_directory_that_somebody_else_makes_meanwhile_is_taken_as_it_is(tmp_path):
    disk = RivalDisk()
    disk.taken = "lake"
    make_directories(disk, str(tmp_path / "lake" / "visits"))
    assert (tmp_path / "lake" / "visits").is_dir()
