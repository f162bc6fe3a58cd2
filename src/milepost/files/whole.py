"""Small files that are read and replaced as a whole, such as checkpoints, snapshots and metadata; and the directories they are in."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from milepost.errors import KafkaStorage
from milepost.files.disk import Disk


@contextmanager
def opened(disk: Disk, path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor for as long as the block takes."""
    fd = disk.open(path, flags)
    try:
        yield fd
    finally:
        disk.close(fd)


def read_file(disk: Disk, path: str, max_size: int = 256 << 20) -> bytes:
    """The whole file. Anything but a regular file of at most `max_size` bytes is refused."""
    with opened(disk, path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
        size = disk.size(fd)
        if not stat.S_ISREG(disk.stat(path).st_mode):
            raise KafkaStorage(f"{path}: not a regular file; remove it or put a file in its place")
        if size > max_size:
            raise KafkaStorage(f"{path}: {size} bytes, where at most {max_size} are expected")
        return disk.pread(fd, size, 0)


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Put `data` in place of the file so that a crash leaves the old content or the new one (W-4 in `tests/crash/test_write_order.py`)."""
    temporary = path + ".tmp"
    write_file(disk, temporary, data, sync=True)
    disk.rename(temporary, path)
    disk.sync_directory(posixpath.dirname(path) or ".")


def write_file(disk: Disk, path: str, data: bytes, *, sync: bool = False) -> None:
    """A new file. Its name is not durable before somebody syncs its directory, nor its content without `sync`."""
    with opened(disk, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        disk.pwrite(fd, data, 0)
        if sync:
            disk.fsync(fd)


def make_directories(disk: Disk, path: str) -> None:
    """The directory and those above it that are missing, each durable before the next. Others may make them meanwhile."""
    if disk.exists(path):
        return
    above = posixpath.dirname(path.rstrip("/"))
    if above:
        make_directories(disk, above)
    try:
        disk.mkdir(path)
    except FileExistsError:
        return
    disk.sync_directory(above or ".")


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
