"""The disk under the storage simulation: two data directories."""

from __future__ import annotations

import errno
import os

from milepost.log.epochs import FILE_NAME as EPOCHS
from tests.crash.memory_disk import MemoryDisk


class TwoDisks(MemoryDisk):
    """One of the directories may stop working, and there may be no room for a new file of epochs."""

    broken: str | None = None
    has_room = True

    def _ask(self, path: str) -> None:
        if self.broken is not None and path.startswith(self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if not self.has_room and path.endswith(f"{EPOCHS}.tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        self._ask(path)
        return super().open(path, flags)

    def rename(self, source: str, target: str) -> None:
        self._ask(source)
        super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._ask(path)
        super().sync_directory(path)
