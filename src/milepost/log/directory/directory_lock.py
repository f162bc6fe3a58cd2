"""The `.lock` file of a data directory: one process owns it, everybody else fails at once and learns who that is.

The lock is the operating system's record lock, the kind Kafka's broker takes too, so the two keep each other out. It
ends with the process, however that ends. The file's content is not part of the protocol: Kafka leaves it empty and
never reads it; we write our process id into it, for systems that have no `/proc/locks`, and empty it again when we
let go.

Record locks belong to the process, not to the descriptor: a second lock by the same process would be granted, and
closing *any* descriptor of the file would release the first. So the directories that this process holds are
remembered here, by the identity of their `.lock` file, and checked before the file is opened.
"""

from __future__ import annotations

import contextlib
import os
import re

from milepost.errors import DirectoryLocked
from milepost.files import Disk, opened

FILE_NAME = ".lock"
PROC_LOCKS = "/proc/locks"
PROC_LOCK = re.compile(rb"^\d+: +(?:POSIX|OFDLCK) +\S+ +WRITE +(\d+) +([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE)

FileIdentity = tuple[int, int]
held_by_this_process: set[FileIdentity] = set()


class DirectoryLock:
    def __init__(self, directory: str, disk: Disk):
        """Take the lock, or raise DirectoryLocked naming the process that has it."""
        self.disk = disk
        self.path = path = f"{directory}/{FILE_NAME}"
        if disk.exists(path) and file_identity(disk, path) in held_by_this_process:
            raise DirectoryLocked(f"{directory}: this process (pid {os.getpid()}) has it open already; close it there first")
        self._fd = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            if not disk.lock(self._fd):
                raise DirectoryLocked(f"{directory}: {owner(disk, path, self._fd)} has it open; stop that process first")
            self._identity = file_identity(disk, path)
            text = b"%d\n" % os.getpid()
            disk.pwrite(self._fd, text, 0)
            disk.truncate(self._fd, len(text))
        except BaseException:
            disk.close(self._fd)
            raise
        held_by_this_process.add(self._identity)

    def release(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        held_by_this_process.discard(self._identity)
        with contextlib.suppress(OSError):  # what the file says is a courtesy; the lock is in the kernel
            self.disk.truncate(fd, 0)
        self.disk.close(fd)


def file_identity(disk: Disk, path: str) -> FileIdentity:
    status = disk.stat(path)
    return status.st_dev, status.st_ino


def owner(disk: Disk, path: str, fd: int) -> str:
    """Who holds the lock: the kernel knows best, else the pid that milepost wrote into the file."""
    pid = locking_pid(read_locks(disk), file_identity(disk, path))
    if pid is not None:
        return f"process {pid}"
    text = disk.pread(fd, 20, 0).strip()
    return f"process {text.decode()} (says the file)" if text.isdigit() else "another process (its pid is not known here)"


def read_locks(disk: Disk) -> bytes:
    """The kernel's table of file locks; empty where there is none to read."""
    table = bytearray()
    try:
        with opened(disk, PROC_LOCKS) as fd:
            while block := disk.pread(fd, 1 << 16, len(table)):
                table += block
    except OSError:
        return b""
    return bytes(table)


def locking_pid(table: bytes, identity: FileIdentity) -> int | None:
    """The process that holds the lock of a file, from lines such as `1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF`."""
    device, inode = identity
    for pid, major, minor, number in PROC_LOCK.findall(table):
        if int(number) == inode and os.makedev(int(major, 16), int(minor, 16)) == device and int(pid) > 0:
            return int(pid)
    return None
