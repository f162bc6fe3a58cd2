"""The `.snapshot` file: what is known about every producer, up to (exclusive) the offset in the file's name.

    bytes  field                      meaning
    2      version                    1
    4      crc                        CRC-32C of everything behind it (byte 6 to the end)
    4      count                      number of entries, 46 bytes each:
    8      producer_id
    2      epoch
    4      last_sequence              of the newest data batch, -1 when there is none
    8      last_data_offset           of that batch, -1 when there is none
    4      last_offset_delta          its last offset minus its first, 0 when there is none
    8      last_timestamp             of the last write, data or marker
    4      coordinator_epoch          of the last transaction marker, -1 when there was none
    8      current_txn_first_offset   where the open transaction starts, -1 when none is open

Integers are big-endian and signed (the crc is not). Entries are written by ascending producer id; Kafka writes them
in the order of its hash map, so readers do not depend on any. Only the newest batch of a producer is stored, where
memory keeps five: loading fetches the other four from the tail of the log.

Not promised: that the file is there or whole. It is derived from the log; a damaged one is deleted and an older one
used.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Protocol

from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptSnapshot, InvalidArgument
from milepost.frozen_dataclass import frozen_dataclass

VERSION = 1
HEADER = struct.Struct(">hIi")
ENTRY = struct.Struct(">qhiqiqiq")
CRC_END = 6

SUFFIX = ".snapshot"
NAME = re.compile(r"([0-9]{20,})\.snapshot", re.ASCII)


class EntryLike(Protocol):
    """What a snapshot stores of a producer: `SnapshotEntry` and the live `ProducerEntry` both have it."""

    @property
    def producer_id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def last_data_offset(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def last_timestamp(self) -> int: ...
    @property
    def coordinator_epoch(self) -> int: ...
    @property
    def current_txn_first_offset(self) -> int | None: ...


@frozen_dataclass
class SnapshotEntry:
    producer_id: int
    epoch: int
    last_sequence: int
    last_data_offset: int
    last_offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int | None


def encode_snapshot(entries: Iterable[EntryLike]) -> bytes:
    packed = [
        ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in sorted(entries, key=lambda entry: entry.producer_id)
    ]
    out = bytearray(HEADER.pack(VERSION, 0, len(packed)))
    out += b"".join(packed)
    out[2:CRC_END] = crc32c(memoryview(out)[CRC_END:]).to_bytes(4, "big")
    return bytes(out)


def decode_snapshot(data: bytes, where: str) -> list[SnapshotEntry]:
    """The entries in file order; `where` names the file in the sentence about damage."""
    if len(data) < HEADER.size:
        raise CorruptSnapshot(f"{where}: {len(data)} bytes, where a producer snapshot has at least {HEADER.size}")
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"{where}: producer snapshot of version {version}, only version {VERSION} is known")
    # The declared count is compared with the bytes that are there before anything is made of it.
    if count < 0 or len(data) != HEADER.size + count * ENTRY.size:
        raise CorruptSnapshot(
            f"{where}: {len(data)} bytes, where {count} producers of {ENTRY.size} bytes need {HEADER.size + count * ENTRY.size}"
        )
    view = memoryview(data)
    computed = crc32c(view[CRC_END:])
    if computed != crc:
        raise CorruptSnapshot(f"{where}: CRC-32C of the bytes from {CRC_END} on is {computed:#010x}, the file says {crc:#010x}")
    return [_entry(*fields) for fields in ENTRY.iter_unpack(view[HEADER.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    sequence: int,
    offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> SnapshotEntry:
    open_from = None if txn_first_offset < 0 else txn_first_offset
    return SnapshotEntry(producer_id, epoch, sequence, offset, offset_delta, timestamp, coordinator_epoch, open_from)


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{SUFFIX}"


def is_snapshot_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def snapshot_offset(name: str) -> int:
    """The offset up to which (exclusive) the snapshot of this name is complete."""
    match = NAME.fullmatch(name)
    if match is None:
        raise InvalidArgument(f"{name!r} is not the name of a producer snapshot: expected 20 digits and {SUFFIX}")
    return int(match.group(1))
