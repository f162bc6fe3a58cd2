"""A disk whose fsyncs can be held back, or made to fail: what waits for them, and what does not?"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter

from milepost.files import Disk


class HeldDisk(Disk):
    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._go = threading.Event()
        self._go.set()
        self._held = ""
        self.is_waited_for = threading.Event()
        self.broken = ""
        self.syncs: Counter[str] = Counter()

    def hold(self, ending: str) -> None:
        """From now on every fsync of a file with such a name waits for `release`."""
        self.is_waited_for.clear()
        self._held = ending
        self._go.clear()

    def release(self) -> None:
        self._go.set()

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._names[fd] = path
        return fd

    def fsync(self, fd: int) -> None:
        name = self._names[fd]
        if self._held and name.endswith(self._held) and not self._go.is_set():
            self.is_waited_for.set()
            assert self._go.wait(120), "nobody let the fsync go"
        if self.broken and name.endswith(self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        self.syncs[name] += 1

    def sync_directory(self, path: str) -> None:
        pass
