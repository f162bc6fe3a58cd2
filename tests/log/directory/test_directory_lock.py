"""One owner per data directory, and its name for everybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.errors import DirectoryLocked
from milepost.files import Disk
from milepost.log.directory.directory_lock import PROC_LOCKS, DirectoryLock, locking_pid

# What a broker of Kafka does: it locks the file and writes nothing into it.
KAFKA = """
import fcntl, sys
file = open(sys.argv[1] + '/.lock', 'a+')
fcntl.lockf(file, fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.read()
"""
MILEPOST = """
import sys
from milepost.files import Disk
from milepost.log.directory.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1], Disk())
print('locked', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path):
    """Start another process that owns the directory; it is killed at the end."""
    started = []

    def start(code: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"locked\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class WithoutProc(Disk):
    """A system that does not tell who holds a lock."""

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        if path == PROC_LOCKS:
            raise FileNotFoundError(2, "No such file or directory", path)
        return super().open(path, flags)


def test_owner_writes_its_pid_and_empties_the_file_when_it_lets_go(tmp_path):
    lock = DirectoryLock(str(tmp_path), Disk())
    assert (tmp_path / ".lock").read_bytes() == b"%d\n" % os.getpid()
    lock.release()
    assert (tmp_path / ".lock").read_bytes() == b""
    lock.release()


def test_stale_longer_pid_is_overwritten_whole(tmp_path):
    (tmp_path / ".lock").write_bytes(b"99999999999\n")
    lock = DirectoryLock(str(tmp_path), Disk())
    assert (tmp_path / ".lock").read_bytes() == b"%d\n" % os.getpid()
    lock.release()


@pytest.mark.parametrize("disk", [Disk(), WithoutProc()], ids=["proc", "no-proc"])
def test_other_process_is_named_by_its_pid(tmp_path, owner, disk):
    process = owner(MILEPOST)
    with pytest.raises(DirectoryLocked, match=rf"{tmp_path}: process {process.pid}( \(says the file\))? has it open"):
        DirectoryLock(str(tmp_path), disk)
    assert (tmp_path / ".lock").read_bytes() == b"%d\n" % process.pid


def test_kafka_is_named_by_its_pid_although_it_writes_none(tmp_path, owner):
    process = owner(KAFKA)
    # Not every system has the table, and some file systems appear in it with another device number than elsewhere.
    table = Path(PROC_LOCKS).read_text() if Path(PROC_LOCKS).exists() else ""
    status = (tmp_path / ".lock").stat()
    line = f" {process.pid} {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    named = f"process {process.pid}" if line in table else "another process .*"
    with pytest.raises(DirectoryLocked, match=f"{named} has it open"):
        DirectoryLock(str(tmp_path), Disk())


def test_kafka_keeps_us_out_where_nobody_tells_its_pid(tmp_path, owner):
    owner(KAFKA)
    with pytest.raises(DirectoryLocked, match=r"another process .* has it open"):
        DirectoryLock(str(tmp_path), WithoutProc())


def test_lock_ends_with_its_process(tmp_path, owner):
    process = owner(MILEPOST)
    process.kill()
    process.wait()
    DirectoryLock(str(tmp_path), Disk()).release()


def test_second_owner_in_the_same_process_is_refused_and_the_first_keeps_the_lock(tmp_path):
    lock = DirectoryLock(str(tmp_path), Disk())
    with pytest.raises(DirectoryLocked, match=rf"this process \(pid {os.getpid()}\) has it open already"):
        DirectoryLock(str(tmp_path), Disk())
    code = "import fcntl, sys; f = open(sys.argv[1] + '/.lock', 'a+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False).returncode == 1
    lock.release()
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0


def test_same_directory_by_another_path_is_the_same_directory(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    lock = DirectoryLock(str(tmp_path / "data"), Disk())
    with pytest.raises(DirectoryLocked, match="has it open already"):
        DirectoryLock(str(tmp_path / "link"), Disk())
    lock.release()


def test_released_directory_can_be_taken_again(tmp_path):
    for _ in range(2):
        DirectoryLock(str(tmp_path), Disk()).release()


def test_lock_file_that_points_elsewhere_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / ".lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        DirectoryLock(str(tmp_path), Disk())
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


TABLE = b"""\
1: FLOCK  ADVISORY  WRITE 101 fd:00:2531452 0 EOF
2: POSIX  ADVISORY  READ 102 fd:00:2531452 0 EOF
3: POSIX  ADVISORY  WRITE 103 08:01:2531452 0 EOF
4: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF
4: -> POSIX  ADVISORY  WRITE 105 fd:00:77 0 EOF
5: POSIX  ADVISORY  WRITE -1 fd:00:78 0 EOF
"""


@pytest.mark.parametrize(
    ("major", "minor", "inode", "pid"), [(0xFD, 0, 2531452, 3568), (8, 1, 2531452, 103), (0xFD, 0, 77, None), (0xFD, 0, 78, None)]
)
def test_holder_is_found_in_the_kernels_table(major, minor, inode, pid):
    assert locking_pid(TABLE, (os.makedev(major, minor), inode)) == pid
