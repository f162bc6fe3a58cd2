"""What the offset index and the time index share: fixed-size entries in a file, and the search for the last one not past a target.

Life of an index file
    active   preallocated to `segment.index.bytes`, rounded down to whole entries (67 bytes: 64 for 8-byte entries, 60 for
             12-byte ones). Entries live in memory and are written through with pwrite. Kafka maps the file for writing; on a full disk
             such a write kills the process, a pwrite only fails.
    sealed   trimmed to its entries when the segment rolls or closes, read through a mapping, refuses appends.

The search looks into the *warm section* first, the last 8192 bytes: consumers read near the end, so the pages of
those entries are always in memory, while a plain binary search over a large index would touch a cold page every time.

Not promised: that the file survives a crash. It is checked when it is loaded and rebuilt from the log when it fails.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, ClassVar

from milepost.errors import CorruptIndex, InvalidArgument
from milepost.files import Handle, HandlePool
from milepost.record.kernel import check_entries
from milepost.segment.trace import IndexSearch, Probe, Trace

if TYPE_CHECKING:
    from milepost.files.types import View

WARM_BYTES = 8192


class SparseIndex:
    entry_struct: ClassVar[struct.Struct]
    entry_size: ClassVar[int]

    def __init__(self, pool: HandlePool, path: str, base_offset: int, max_bytes: int):
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes
        self.max_entries = max_bytes // self.entry_size
        self._handle: Handle = pool.handle(path, os.O_RDWR)
        self._memory: bytearray | None = None
        self.entries = 0

    # Opening, growing, shrinking.

    def open_sealed(self, size: int) -> None:
        """Take the file as it is: every whole entry counts."""
        self._handle.close()
        self._memory = None
        self.entries = size // self.entry_size
        self._loaded()

    def open_active(self) -> None:
        """Create the file, or take up the entries of an existing one, and make room for more."""
        if self._memory is not None:
            return
        if self.max_entries < 1:
            raise InvalidArgument(
                f"{self.path}: segment.index.bytes is {self.max_bytes}, less than one entry of {self.entry_size} bytes"
            )
        # An index has nothing to open read-only: either it exists and is taken up, or it is created here.
        self._handle.close()
        self._handle.flags |= os.O_CREAT
        disk, fd = self._handle.disk, self._handle.fd
        self._memory = bytearray(disk.pread(fd, self.entries * self.entry_size, 0))
        disk.truncate(fd, self.max_entries * self.entry_size)

    def seal(self) -> None:
        """Cut the file to its entries; from here on it is read-only."""
        if self._memory is None:
            return
        self._handle.disk.truncate(self._handle.fd, self.entries * self.entry_size)
        self._memory = None
        self._handle.close()

    def reset(self) -> None:
        """Forget all entries: the start of a rebuild."""
        self.entries = 0
        self.open_active()
        self.keep_entries(0)

    def keep_entries(self, entries: int) -> None:
        """Drop everything behind the first `entries` entries; the file keeps its full size with a zero tail."""
        assert self._memory is not None, "a sealed index is opened for appending before it is cut"
        self.entries = entries
        del self._memory[entries * self.entry_size :]
        disk, fd = self._handle.disk, self._handle.fd
        disk.truncate(fd, entries * self.entry_size)
        disk.truncate(fd, self.max_entries * self.entry_size)
        self._loaded()

    def _loaded(self) -> None:
        """Called whenever the last entry may have changed other than by an append."""
        raise NotImplementedError

    def rename(self, path: str) -> None:
        self.path = self._handle.path = path

    def flush(self) -> None:
        if self.exists():
            self._handle.disk.fsync(self._handle.fd)

    def exists(self) -> bool:
        return self._handle.disk.exists(self.path)

    def close_handle(self) -> None:
        self._handle.close()

    def finish(self, path: str) -> None:
        """The file is at `path` now, and takes no more entries."""
        self.path = path
        self._handle.finish(path)

    @property
    def is_active(self) -> bool:
        return self._memory is not None

    # Entries.

    def write_entry(self, first: int, second: int) -> None:
        if self._memory is None:
            raise InvalidArgument(f"{self.path}: the index is sealed and takes no more entries")
        packed = self.entry_struct.pack(first, second)
        self._handle.disk.pwrite(self._handle.fd, packed, len(self._memory))
        self._memory += packed
        self.entries += 1

    def buffer(self) -> View:
        if self._memory is not None:
            return self._memory
        return self._handle.view(self.entries * self.entry_size) if self.entries else b""

    def raw_entry(self, slot: int) -> tuple[int, int]:
        if not 0 <= slot < self.entries:
            raise InvalidArgument(f"{self.path}: no slot {slot}; the index has {self.entries} entries")
        first, second = self.entry_struct.unpack_from(self.buffer(), slot * self.entry_size)
        return first, second

    # The search.

    def floor_slot(self, target: int, trace: Trace | None = None, field: int = 0) -> int | None:
        """The last slot whose key is not past `target`, or None when all are. `field` says which half of the entry is the key."""
        entries = self.entries
        if not entries:
            return self._traced(trace, target, [], False, None)
        buffer, size = self.buffer(), self.entry_size
        unpack = self.entry_struct.unpack_from
        probes: list[Probe] | None = [] if trace is not None else None

        def key(slot: int) -> int:
            value: int = unpack(buffer, slot * size)[field]
            # The search looks at the first warm slot twice running when that is not below the target: one look, told once.
            if probes is not None and (not probes or probes[-1].slot != slot):
                probes.append(Probe(slot, value))
            return value

        # Slot -1 stands for "before the first entry". Kafka looks at slot 0 for that, one cold page more in each search.
        low, high = -1, entries - 1
        first_warm = max(0, entries - 1 - WARM_BYTES // size)
        warm = key(first_warm) < target
        if warm:
            low = first_warm
        else:
            high = first_warm
        while low < high:
            middle = (low + high + 1) >> 1
            found = key(middle)
            if found > target:
                high = middle - 1
            elif found < target:
                low = middle
            else:
                low = high = middle
        return self._traced(trace, target, probes, warm, None if low < 0 else low)

    def _traced(self, trace: Trace | None, target: int, probes: list[Probe] | None, warm: bool, slot: int | None) -> int | None:
        if trace is not None:
            following = 0 if slot is None else slot + 1
            next_entry = self.raw_entry(following) if following < self.entries else None
            entry = (0, 0) if slot is None else self.raw_entry(slot)
            previous = self.raw_entry(slot - 1) if slot else None
            seen, size = tuple(probes or ()), self.entry_size
            trace.add(IndexSearch(self.path, size, self.entries, target, seen, warm, slot, entry, next_entry, previous))
        return slot

    def check_order(self) -> None:
        """Raise CorruptIndex unless every entry stands above the one before it."""
        broken = check_entries(self.buffer(), self.entries, self.entry_size)
        if broken >= 0:
            raise CorruptIndex(
                f"{self.path}: entry {broken} is {self.raw_entry(broken)}, which does not follow the entry before it; rebuild the index"
            )
