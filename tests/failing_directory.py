"""A disk of which one directory fails: every call of some kinds below one path, from some moment on."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

from tests.quick_disk import QuickDisk

KINDS = ("open", "read", "write", "truncate", "sync", "rename", "unlink", "make", "stat", "list")


class FailingDirectoryDisk(QuickDisk):
    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self.broken: str | None = None
        self.kinds: tuple[str, ...] = KINDS
        self.error = errno.EIO
        self.failures = 0

    def fail(self, directory: Any, *kinds: str) -> None:
        """From now on these kinds of calls fail below the directory; all of them when none is named."""
        self.kinds = kinds or KINDS
        self.broken = str(directory)

    def _check(self, kind: str, path: str) -> None:
        if self.broken is not None and kind in self.kinds and path.startswith(self.broken):
            self.failures += 1
            raise OSError(self.error, os.strerror(self.error), path)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        self._check("open", path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._check("read", self._paths[fd])
        return super().pread(fd, size, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        self._check("read", self._paths[fd])
        return super().pread_into(fd, buffer, position)

    def map(self, fd: int, size: int) -> Any:
        self._check("read", self._paths[fd])
        return super().map(fd, size)

    def sendfile(self, target: int, fd: int, position: int, size: int) -> int:
        self._check("read", self._paths[fd])
        return super().sendfile(target, fd, position, size)

    def pwrite(self, fd: int, data: Any, position: int) -> None:
        self._check("write", self._paths[fd])
        super().pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Any], position: int, size: int) -> None:
        self._check("write", self._paths[fd])
        super().pwritev(fd, buffers, position, size)

    def truncate(self, fd: int, size: int) -> None:
        self._check("truncate", self._paths[fd])
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._check("sync", self._paths[fd])

    def sync_directory(self, path: str) -> None:
        self._check("sync", path)

    def rename(self, source: str, target: str) -> None:
        self._check("rename", source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._check("unlink", path)
        super().unlink(path)

    def mkdir(self, path: str) -> None:
        self._check("make", path)
        super().mkdir(path)

    def stat(self, path: str) -> os.stat_result:
        self._check("stat", path)
        return super().stat(path)

    def listdir(self, path: str) -> list[str]:
        self._check("list", path)
        return super().listdir(path)

    def set_mtime(self, path: str, seconds: float) -> None:
        self._check("write", path)
        super().set_mtime(path, seconds)
