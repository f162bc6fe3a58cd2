"""Files that are opened when they are needed, and closed again when too many are open.

A log of ten thousand segments would hold thirty thousand descriptors. So a file is a `Handle`: its descriptor (or
its read-only mapping, which costs one too) comes on first use, and the pool closes the least used ones when
its limit is reached. "Least used" is a second-chance sweep: a use sets one flag, which is cheaper than moving a list entry.

A handle's descriptor is valid until the next handle of the same pool is opened: fetch it, use it, do not keep it.
"""

from __future__ import annotations

import mmap
import os
import resource
from collections import deque
from typing import TYPE_CHECKING

from milepost.files.disk import Disk

if TYPE_CHECKING:
    from milepost.files.types import View


class Handle:
    __slots__ = ("_fd", "_pool", "_view", "disk", "flags", "path", "used")

    def __init__(self, pool: HandlePool, path: str, flags: int):
        self._pool = pool
        self._fd = -1
        self._view: View | None = None
        self.disk = pool.disk
        self.path = path
        self.flags = flags
        self.used = False

    @property
    def fd(self) -> int:
        self.used = True
        if self._fd < 0:
            self._pool.make_room(self)
            self._fd = self.disk.open(self.path, self.flags)
            self.flags &= ~(os.O_CREAT | os.O_EXCL)
        return self._fd

    def view(self, size: int) -> View:
        """The first `size` bytes of the file, mapped read-only. For files that no longer change."""
        self.used = True
        if self._view is None:
            self._pool.make_room(self)
            fd = self.disk.open(self.path)
            try:
                self._view = self.disk.map(fd, size)
            finally:
                self.disk.close(fd)
        return self._view

    @property
    def is_open(self) -> bool:
        return self._fd >= 0 or self._view is not None

    def close(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self.disk.close(fd)
        if self._view is not None:
            view, self._view = self._view, None
            if isinstance(view, mmap.mmap):
                view.close()


class HandlePool:
    def __init__(self, disk: Disk, limit: int | None = None):
        self.disk = disk
        self.limit = limit or default_limit()
        self._open: deque[Handle] = deque()

    def handle(self, path: str, flags: int = os.O_RDONLY) -> Handle:
        return Handle(self, path, flags)

    def make_room(self, newcomer: Handle) -> None:
        while len(self._open) >= self.limit:
            handle = self._open.popleft()
            if handle is newcomer or not handle.is_open:
                continue
            if handle.used:
                handle.used = False
                self._open.append(handle)
            else:
                handle.close()
        self._open.append(newcomer)


def default_limit() -> int:
    """A quarter of what the process may open: sockets and everybody else need the rest (`net/connection_limits`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(16, min(4096, soft // 4))
