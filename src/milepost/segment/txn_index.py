"""The transaction index of one segment: the transactions whose ABORT marker lies in it.

On disk (`00000000000000000251.txnindex`), in the order of the markers; the file exists only once a transaction was aborted:

    bytes  field               meaning
    2      version             0
    8      producer_id
    8      first_offset        of the transaction, perhaps in an earlier segment
    8      last_offset         of the ABORT marker, in this segment
    8      last_stable_offset  when the marker was written: nothing below it was still undecided

A reader with read_committed gets the aborted transactions that overlap its fetch and drops their records.

Not promised: that the file survives a crash. It is rebuilt with the segment. A partial entry at the end is ignored.
"""

from __future__ import annotations

import os
import struct

from milepost.errors import CorruptIndex, InvalidArgument
from milepost.files import HandlePool, remove_file
from milepost.frozen_dataclass import frozen_dataclass

ENTRY = struct.Struct(">hqqqq")


@frozen_dataclass
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = 0


@frozen_dataclass
class AbortedSearch:
    transactions: list[AbortedTransaction]
    is_complete: bool


class TxnIndex:
    def __init__(self, pool: HandlePool, path: str, base_offset: int, size: int = 0):
        self.path = path
        self.base_offset = base_offset
        self._disk = pool.disk
        self._handle = pool.handle(path, os.O_RDWR)
        self._size = size - size % ENTRY.size
        self._last_offset: int | None = None
        self._is_changed = False

    @property
    def is_empty(self) -> bool:
        return self._size == 0

    def reader(self, pool: HandlePool) -> TxnIndex:
        """The index as it is now, through a handle of another pool: for another thread."""
        return TxnIndex(pool, self.path, self.base_offset, self._size)

    def append(self, aborted: AbortedTransaction) -> None:
        if self._last_offset is not None and aborted.last_offset <= self._last_offset:
            raise InvalidArgument(
                f"{self.path}: aborted transaction ends at {aborted.last_offset}, not above {self._last_offset}, the last one's"
            )
        packed = ENTRY.pack(0, aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        self._handle.flags |= os.O_CREAT
        self._disk.pwrite(self._handle.fd, packed, self._size)
        self._size += ENTRY.size
        self._last_offset = aborted.last_offset

    def transactions(self) -> list[AbortedTransaction]:
        if not self._size:
            return []
        data = self._disk.pread(self._handle.fd, self._size, 0)
        found = []
        for number, fields in enumerate(ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size])):
            # Kafka's readers look at the high byte of the version only.
            if fields[0] >> 8 > 0:
                raise CorruptIndex(f"{self.path}: entry {number} has version {fields[0]}; version 0 is the only one known")
            version, producer_id, first_offset, last_offset, last_stable_offset = fields
            found.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset, version))
        return found

    def collect(self, fetch_offset: int, upper_bound: int) -> AbortedSearch:
        """The transactions that overlap `fetch_offset` up to `upper_bound`; complete when later segments can hold no more of them."""
        found = []
        for aborted in self.transactions():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound:
                return AbortedSearch(found, True)
        return AbortedSearch(found, False)

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that end at or above `offset`."""
        kept = [aborted for aborted in self.transactions() if aborted.last_offset < offset]
        self._cut(len(kept) * ENTRY.size)
        self._last_offset = kept[-1].last_offset if kept else None

    def reset(self) -> None:
        self._cut(0)
        self._last_offset = None

    def _cut(self, size: int) -> None:
        if size != self._size or size == 0:
            self._size = size
            if self._disk.exists(self.path):
                self._disk.truncate(self._handle.fd, size)
                self._is_changed = True

    def check(self) -> None:
        for aborted in self.transactions():
            if aborted.last_offset < self.base_offset:
                raise CorruptIndex(
                    f"{self.path}: a transaction ends at {aborted.last_offset}, before the segment starts at {self.base_offset}"
                )

    def flush(self) -> None:
        # Also when it is empty: entries that were cut off must not come back.
        if self._is_changed or self._size:
            self._disk.fsync(self._handle.fd)
            self._is_changed = False

    def rename(self, path: str) -> None:
        if self._disk.exists(self.path):
            self._disk.rename(self.path, path)
        self.path = self._handle.path = path

    def delete(self) -> bool:
        self._handle.close()
        return remove_file(self._disk, self.path)

    def close(self) -> None:
        self._handle.close()

    def finish(self, path: str) -> None:
        """The file is at `path` now, and takes no more transactions."""
        self.path = path
        self._handle.finish(path)
