"""Index files as they lie on disk: every slot, without asking whether it makes sense.

    file         entry                                   bytes
    .index       relative offset, position               4 + 4
    .timeindex   timestamp, relative offset              8 + 4
    .txnindex    version, producer, first, last, stable  2 + 8 + 8 + 8 + 8

While a segment is active its two sparse indexes are preallocated: zeros stand behind the entries, and a crash leaves them
there. A slot of zeros says nothing (no entry ever stands for position 0), so the zeros at the end are counted and not taken for
entries. Bytes that do not make a whole entry are counted too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from milepost.files import Disk, read_file
from milepost.segment import offset_index, time_index, txn_index
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction

OFFSET_ENTRY = offset_index.OffsetIndex.entry_struct
TIME_ENTRY = time_index.TimeIndex.entry_struct
TXN_ENTRY = txn_index.ENTRY


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The bytes of an index, `entries` of them used; `unused` slots of zeros and `odd` bytes stand behind."""

    path: str
    base_offset: int
    entry: struct.Struct
    data: bytes
    entries: int
    unused: int
    odd: int

    def slots(self) -> Iterator[tuple[int, ...]]:
        return self.entry.iter_unpack(memoryview(self.data)[: self.entries * self.entry.size])


def read_offset_index(disk: Disk, path: str, base_offset: int) -> IndexFile:
    return _read(disk, path, base_offset, OFFSET_ENTRY)


def read_time_index(disk: Disk, path: str, base_offset: int) -> IndexFile:
    return _read(disk, path, base_offset, TIME_ENTRY)


def _read(disk: Disk, path: str, base_offset: int, entry: struct.Struct) -> IndexFile:
    data = read_file(disk, path)
    slots, odd = divmod(len(data), entry.size)
    last_byte_used = len(data[: slots * entry.size].rstrip(b"\0"))
    entries = -(-last_byte_used // entry.size)
    return IndexFile(path, base_offset, entry, data, entries, slots - entries, odd)


def offset_entries(index: IndexFile) -> Iterator[OffsetPosition]:
    return (OffsetPosition(index.base_offset + relative, position) for relative, position in index.slots())


def time_entries(index: IndexFile) -> Iterator[TimestampOffset]:
    return (TimestampOffset(timestamp, index.base_offset + relative) for timestamp, relative in index.slots())


def last_offset(times: IndexFile) -> int:
    """What the last entry of a time index stands for."""
    entry = times.entry.unpack_from(times.data, (times.entries - 1) * times.entry.size)
    return times.base_offset + int(entry[1])


def read_txn_index(disk: Disk, path: str) -> tuple[list[AbortedTransaction], int]:
    """The entries, and how many bytes behind them make no whole one."""
    data = read_file(disk, path)
    odd = len(data) % TXN_ENTRY.size
    entries = TXN_ENTRY.iter_unpack(memoryview(data)[: len(data) - odd])
    return [
        AbortedTransaction(producer_id, first, last, stable, version) for version, producer_id, first, last, stable in entries
    ], odd
