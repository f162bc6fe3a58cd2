"""The producer snapshots of one partition directory: which are there, and which of them are worth keeping.

The directory is listed once, when the log is opened; from then on this list is what is there. A snapshot belongs to the
segment that starts at its offset and goes when the segment goes (renamed to `.snapshot.deleted`, removed a while later).
The one that belongs to no segment is that of the last stop, at the end of the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from milepost.files import Disk, read_file, remove_file, replace_file
from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot, is_snapshot_name, snapshot_name, snapshot_offset

DELETED_SUFFIX = ".deleted"


class SnapshotFiles:
    def __init__(self, directory: str, disk: Disk):
        self.directory = directory
        self.disk = disk
        self._offsets = sorted(snapshot_offset(name) for name in disk.listdir(directory) if is_snapshot_name(name))

    def move_to(self, directory: str) -> None:
        """The directory has another name now."""
        self.directory = directory

    @property
    def offsets(self) -> list[int]:
        """Ascending."""
        return list(self._offsets)

    @property
    def newest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        return f"{self.directory}/{snapshot_name(offset)}"

    def write(self, offset: int, data: bytes) -> str:
        """Put the snapshot at `offset` in place, whole or not at all; its path. `add` makes it known.

        W-4 in `tests/crash/test_write_order.py`.
        """
        path = self.path(offset)
        replace_file(self.disk, path, data)
        return path

    def add(self, offset: int) -> None:
        if offset not in self:
            insort(self._offsets, offset)

    def read(self, offset: int) -> list[SnapshotEntry]:
        path = self.path(offset)
        return decode_snapshot(read_file(self.disk, path), path)

    def __contains__(self, offset: int) -> bool:
        slot = bisect_left(self._offsets, offset)
        return slot < len(self._offsets) and self._offsets[slot] == offset

    def remove(self, offset: int) -> None:
        remove_file(self.disk, self.path(offset))
        self._forget(offset)

    def _forget(self, offset: int) -> None:
        if offset in self:
            del self._offsets[bisect_left(self._offsets, offset)]

    def rename_for_delete(self, offset: int) -> str | None:
        """Mark the snapshot as deleted; its new path, to be removed later, or None when there is none."""
        if offset not in self:
            return None
        self._forget(offset)
        path = self.path(offset)
        try:
            self.disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return None
        return path + DELETED_SUFFIX

    def remove_below(self, offset: int) -> None:
        for known in self._offsets[: bisect_left(self._offsets, offset)]:
            self.remove(known)

    def remove_above(self, offset: int) -> None:
        for known in self._offsets[bisect_right(self._offsets, offset) :]:
            self.remove(known)

    def remove_strays(self, segment_base_offsets: Iterable[int]) -> None:
        """Keep those at segment bases, and the newest other one if no segment starts behind it (a stop left it)."""
        bases = set(segment_base_offsets)
        strays = [offset for offset in self._offsets if offset not in bases]
        if strays and strays[-1] >= max(bases, default=0):
            strays.pop()
        for offset in strays:
            self.remove(offset)
