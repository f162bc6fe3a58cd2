"""Small files that are read and replaced as a whole: checkpoints, snapshots, metadata."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable

from milepost.errors import KafkaStorage
from milepost.files.disk import Disk


def read_file(disk: Disk, path: str, max_size: int = 256 << 20) -> bytes:
    """The whole file. Anything but a regular file of at most `max_size` bytes is refused."""
    fd = disk.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        size = disk.size(fd)
        if not stat.S_ISREG(disk.stat(path).st_mode):
            raise KafkaStorage(f"{path}: not a regular file; remove it or put a file in its place")
        if size > max_size:
            raise KafkaStorage(f"{path}: {size} bytes, where at most {max_size} are expected")
        return disk.pread(fd, size, 0)
    finally:
        disk.close(fd)


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` in place of the file so that a crash leaves the old content or the new one (rule W-4)."""
    temporary = path + ".tmp"
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.pwrite(fd, data, 0)
        disk.fsync(fd)
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.sync_directory(posixpath.dirname(path) or ".")


def write_file(disk: Disk, path: str, data: bytes) -> None:
    """A new file, not durable before somebody syncs it and its directory."""
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.pwrite(fd, data, 0)
    finally:
        disk.close(fd)


def remove_file(disk: Disk, path: str) -> bool:
    """Whether there was a file to remove."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_files(disk: Disk, paths: Iterable[str]) -> None:
    """Those of them that are there."""
    for path in paths:
        remove_file(disk, path)
