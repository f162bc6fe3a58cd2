"""Files that are opened when they are needed, and closed again when too many are open.

A log of ten thousand segments would hold thirty thousand descriptors. So a file is a `Handle`: its descriptor (or
its read-only mapping, which costs one too) comes on first use, and the pool closes the least used ones when
its limit is reached. "Least used" is a second-chance sweep: a use sets one flag, which is cheaper than moving a list entry.

Whoever holds what `fd` or `view` returned keeps the file open: the pool gives up its own reference, and the last one that goes closes
the file. So a pool may serve several threads, and a descriptor is never closed, or given to another file, while one of them is about to
use it. Fetch it, use it, do not keep it: what is kept is open beyond the limit.
"""

from __future__ import annotations

import os
import resource
import threading
from collections import deque
from typing import TYPE_CHECKING

from milepost.files.disk import Disk

if TYPE_CHECKING:
    from milepost.files.types import View


class Descriptor(int):
    """A file descriptor that is closed with its last reference, if nobody closed it before."""

    disk: Disk
    is_closed: bool

    @classmethod
    def opened(cls, disk: Disk, path: str, flags: int) -> Descriptor:
        found = cls(disk.open(path, flags))
        found.disk, found.is_closed = disk, False
        return found

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.disk.close(int(self))

    def __del__(self) -> None:
        self.close()


class Handle:
    __slots__ = ("_fd", "_is_final", "_pool", "_view", "disk", "flags", "path", "used")

    def __init__(self, pool: HandlePool, path: str, flags: int):
        self._pool = pool
        self._fd: Descriptor | None = None
        self._view: View | None = None
        self.disk = pool.disk
        self.path = path
        self.flags = flags
        self.used = False
        self._is_final = False

    @property
    def fd(self) -> int:
        self.used = True
        fd = self._fd
        if fd is None:
            self._pool.make_room(self)
            self._fd = fd = Descriptor.opened(self.disk, self.path, os.O_RDONLY if self._is_final else self.flags)
            self._pool.note(self)
            self.flags &= ~(os.O_CREAT | os.O_EXCL)
        return fd

    def view(self, size: int) -> View:
        """The first `size` bytes of the file, mapped read-only. For files that no longer change."""
        self.used = True
        view = self._view
        if view is None:
            self._pool.make_room(self)
            fd = self.disk.open(self.path)
            try:
                self._view = view = self.disk.map(fd, size)
            finally:
                self.disk.close(fd)
            self._pool.note(self)
        return view

    @property
    def is_open(self) -> bool:
        return self._fd is not None or self._view is not None

    def close(self) -> None:
        """Close the file; the next use opens it again. For its owner, who knows that it is not in use."""
        fd = self._fd
        self.release()
        if fd is not None:
            fd.close()

    def release(self) -> None:
        """The same, once nobody uses it any more."""
        self._fd = self._view = None

    def finish(self, path: str) -> None:
        """Nobody writes through this handle any more. The file is at `path` now; the next use opens it for reading, and never makes it."""
        self.close()
        self.path = path
        self._is_final = True


class HandlePool:
    def __init__(self, disk: Disk, limit: int | None = None):
        self.disk = disk
        self.limit = limit or default_limit()
        self._open: deque[Handle] = deque()
        self._sweeping = threading.Lock()

    def handle(self, path: str, flags: int = os.O_RDONLY) -> Handle:
        return Handle(self, path, flags)

    def make_room(self, newcomer: Handle) -> None:
        with self._sweeping:
            while len(self._open) >= self.limit:
                handle = self._open.popleft()
                if handle is newcomer or not handle.is_open:
                    continue
                if handle.used:
                    handle.used = False
                    self._open.append(handle)
                else:
                    handle.release()

    def note(self, newcomer: Handle) -> None:
        """It is open now. Only from here on: another thread's sweep drops what is not."""
        self._open.append(newcomer)


def default_limit() -> int:
    """A quarter of what the process may open: sockets and everybody else need the rest (`net/connection_limits`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(16, min(4096, soft // 4))
