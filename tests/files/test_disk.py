"""The disk as milepost uses it: whole writes, no descriptors that leak or hang, names that are not followed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from milepost.files import Disk
from milepost.files import disk as disk_module


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def file(tmp_path, disk):
    path = tmp_path / "file"
    fd = disk.open(str(path), os.O_RDWR | os.O_CREAT)
    yield path, fd
    disk.close(fd)


def at_most(count, write):
    """A system call that takes only `count` bytes at a time, as on a nearly full disk."""

    def short(fd, data, position):
        joined = b"".join(data) if isinstance(data, (list, tuple)) else bytes(data)
        return write(fd, joined[:count], position)

    return short


def test_write_lands_at_its_position_without_moving_anything(disk, file):
    path, fd = file
    disk.pwrite(fd, b"0123456789", 0)
    disk.pwrite(fd, b"ab", 3)
    assert path.read_bytes() == b"012ab56789"
    assert disk.pread(fd, 4, 2) == b"2ab5"
    assert disk.size(fd) == 10


def test_buffers_are_written_one_behind_the_other(disk, file):
    path, fd = file
    disk.pwritev(fd, [b"head", bytearray(b"er"), memoryview(b"body")], 2, 10)
    assert path.read_bytes() == b"\0\0headerbody"


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_short_write_is_continued_to_the_end(disk, file, monkeypatch, count):
    path, fd = file
    monkeypatch.setattr(disk_module.os, "pwrite", at_most(count, os.pwrite))
    disk.pwrite(fd, b"0123456789", 5)
    assert path.read_bytes() == b"\0\0\0\0\x000123456789"


@pytest.mark.parametrize("count", [1, 4, 6, 9])
def test_short_write_of_several_buffers_is_continued_to_the_end(disk, file, monkeypatch, count):
    path, fd = file
    monkeypatch.setattr(disk_module.os, "pwritev", at_most(count, os.pwrite))
    disk.pwritev(fd, [b"head", b"er", b"body"], 0, 10)
    assert path.read_bytes() == b"headerbody"


def test_truncate_cuts_and_grows_with_zeros(disk, file):
    path, fd = file
    disk.pwrite(fd, b"0123456789", 0)
    disk.truncate(fd, 4)
    disk.truncate(fd, 6)
    assert path.read_bytes() == b"0123\0\0"


def test_mapping_outlives_its_descriptor_and_cannot_be_written(tmp_path, disk):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    fd = disk.open(str(path))
    view = disk.map(fd, 6)
    disk.close(fd)
    assert bytes(view[:]) == b"012345"
    with pytest.raises(TypeError):
        view[0] = 1


def test_mapping_of_nothing_is_empty_bytes(disk, file):
    assert disk.map(file[1], 0) == b""


def test_fifo_with_the_name_of_a_segment_does_not_hang_the_open(tmp_path, disk):
    path = tmp_path / "00000000000000000000.log"
    os.mkfifo(path)
    disk.close(disk.open(str(path)))


def test_descriptors_are_not_given_to_child_processes(file):
    assert not os.get_inheritable(file[1])


def test_new_files_can_be_read_by_others_and_written_by_their_owner_only(file):
    assert file[0].stat().st_mode & 0o022 == 0


def test_lock_held_by_another_process_is_refused_at_once_and_free_after_its_end(disk, file):
    path, fd = file
    holder = f"import fcntl, sys; f = open({str(path)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert disk.lock(fd) is False
        process.communicate()
    assert disk.lock(fd) is True


def test_rename_replaces_what_is_there(tmp_path, disk):
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "old").write_bytes(b"old")
    disk.rename(str(tmp_path / "new"), str(tmp_path / "old"))
    assert (tmp_path / "old").read_bytes() == b"new"
    assert disk.listdir(str(tmp_path)) == ["old"]


def test_stat_and_exists_look_at_the_link_and_not_behind_it(tmp_path, disk):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert disk.exists(str(link))
    assert disk.stat(str(link)).st_ino == link.lstat().st_ino


def test_set_mtime_sets_the_time_of_the_last_change(tmp_path, disk, file):
    disk.set_mtime(str(file[0]), 1526384718.25)
    assert disk.stat(str(file[0])).st_mtime == 1526384718.25


def test_directories_are_made_synced_and_removed(tmp_path, disk):
    path = str(tmp_path / "page_visits-0")
    disk.mkdir(path)
    disk.sync_directory(path)
    disk.rmdir(path)
    assert not disk.exists(path)
    with pytest.raises(FileNotFoundError):
        disk.sync_directory(path)
