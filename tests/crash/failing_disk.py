"""A disk that refuses one call: the N-th, with an errno of choice; or every one from the N-th on, as a full disk does.

A write that fails may have been done in part: its first half is, where `tears` says so. Reading never fills a disk:
only calls that take space can fail for want of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tests.crash.memory_disk import MemoryDisk, State

TAKES_SPACE = ("create", "write", "truncate", "rename", "mkdir")
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class FailingDisk(MemoryDisk):
    def __init__(
        self,
        at: int,
        error: int,
        *,
        tears: bool = False,
        state: State | None = None,
        directories: Iterable[str] = (),
        for_good: bool = False,
    ):
        super().__init__(state, directories)
        self.at = at
        self.error = error
        self.tears = tears
        self.for_good = for_good
        self.is_on = True
        self.calls = 0
        self.failed: list[str] = []

    def call(self, kind: str, what: str) -> None:
        """Count a call that may fail, and fail it if its turn has come."""
        if not self.is_on or (self.error in NO_SPACE and kind not in TAKES_SPACE):
            return
        self.calls += 1
        if self.calls == self.at or (self.for_good and self.calls > self.at):
            self.failed.append(f"{kind} {what}")
            raise OSError(self.error, os.strerror(self.error), what)

    def name_of(self, fd: int) -> str:
        node = self.descriptors[fd]
        return next((path for path, known in self.nodes.items() if known is node), "?")

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        self.call("open" if path in self.nodes or not flags & os.O_CREAT else "create", path)
        return super().open(path, flags)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self.call("read", self.name_of(fd))
        return super().pread(fd, size, position)

    def pwrite(self, fd: int, data: Any, position: int) -> None:
        try:
            self.call("write", self.name_of(fd))
        except OSError:
            if self.tears:
                super().pwrite(fd, bytes(data)[: len(data) // 2], position)
            raise
        super().pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Any], position: int, size: int | None = None) -> None:
        self.pwrite(fd, b"".join(buffers), position)

    def truncate(self, fd: int, size: int) -> None:
        if size > self.size(fd) or self.error not in NO_SPACE:
            self.call("truncate", self.name_of(fd))
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self.call("fsync", self.name_of(fd))

    def map(self, fd: int, size: int) -> bytes:
        self.call("map", self.name_of(fd))
        return super().map(fd, size)

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.call("unlink", path)
        super().unlink(path)

    def mkdir(self, path: str) -> None:
        self.call("mkdir", path)
        super().mkdir(path)

    def listdir(self, path: str) -> list[str]:
        self.call("listdir", path)
        return super().listdir(path)

    def sync_directory(self, path: str) -> None:
        self.call("sync", path)
