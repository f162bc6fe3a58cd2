"""The operations milepost asks of a file system, on raw descriptors.

There is no buffered writer here: a write that returned is in the kernel and survives the death of the process
(W-1 in `tests/crash/test_write_order.py`). A write either completes or raises; the caller then cuts the file back to its last good length.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer, View


class Disk:
    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        # O_NONBLOCK: a FIFO that carries the name of a segment must not hang us; it changes nothing for regular files.
        return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return os.pread(fd, size, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        """Fill memory of the caller's; how many bytes were there."""
        return os.preadv(fd, [buffer], position)

    def pwrite(self, fd: int, data: ReadableBuffer, position: int) -> None:
        written = os.pwrite(fd, data, position)
        if written != len(data):
            self._write_rest(fd, memoryview(data).cast("B")[written:], position + written)

    def pwritev(self, fd: int, buffers: Sequence[ReadableBuffer], position: int, size: int) -> None:
        """Write the buffers, `size` bytes in all, one behind the other."""
        # An append nearly always has one buffer: without a list around it, that is cheaper.
        written = os.pwrite(fd, buffers[0], position) if len(buffers) == 1 else os.pwritev(fd, buffers, position)
        if written != size:
            self._write_rest(fd, memoryview(b"".join(buffers))[written:], position + written)

    def _write_rest(self, fd: int, rest: memoryview, position: int) -> None:
        while rest:
            written = os.pwrite(fd, rest, position)
            rest = rest[written:]
            position += written

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def status(self, fd: int) -> os.stat_result:
        """Of an open file, whatever its name has become."""
        return os.fstat(fd)

    def map(self, fd: int, size: int) -> View:
        """A read-only view of the first `size` bytes; the descriptor may be closed afterwards."""
        return mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""

    def sendfile(self, target: int, fd: int, position: int, size: int) -> int:
        """Have the kernel copy from a file to a socket; how many bytes went."""
        return os.sendfile(target, fd, position, size)

    def lock(self, fd: int) -> bool:
        """Take the exclusive lock of the file, or say at once that another process has it."""
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def stat(self, path: str) -> os.stat_result:
        """Of the name itself: a symbolic link is not followed."""
        return os.lstat(path)

    def resolve(self, path: str) -> str:
        """The path without symbolic links; OSError where they lead nowhere or in a circle."""
        return os.path.realpath(path, strict=True)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the file system that `path` is on: all, and those that are free for us."""
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def set_mtime(self, path: str, seconds: float) -> None:
        os.utime(path, (seconds, seconds))

    def restrict(self, path: str) -> None:
        """From now on only for its owner to read and write."""
        os.chmod(path, 0o600)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable: creations, renames, removals."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
