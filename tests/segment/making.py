"""Segments and batches as these tests need them: small, with chosen offsets, times and sizes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from milepost.clock import Clock, ManualClock
from milepost.codec.compression import Codec
from milepost.config import LogConfig
from milepost.files import Disk, HandlePool
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.segment.append_unit import AppendUnit
from milepost.segment.segment import Segment

INT_MAX = 2**31 - 1


def batch(
    first_offset: int,
    count: int = 1,
    *,
    timestamp: int = 1000,
    size: int | None = None,
    codec: Codec = Codec.NONE,
    leader_epoch: int = 0,
    **fields: Any,
) -> bytes:
    """Records at consecutive offsets; the last one's content makes up the wanted size."""
    records = [Record(first_offset + place, timestamp, b"k", b"") for place in range(count)]
    if size is not None:
        return filled(records, size, codec=codec, partition_leader_epoch=leader_epoch, **fields)
    return build_batch(records, codec=codec, partition_leader_epoch=leader_epoch, **fields)


def filled(records: list[Record], size: int, **fields: Any) -> bytes:
    """One batch of exactly `size` bytes. A longer key helps where a longer value would make its length one byte longer too."""
    *others, last = records
    missing = size - len(build_batch(records, **fields))
    for more in range(3):
        for filling in range(missing - more, max(-1, missing - more - 12), -1):
            built = build_batch([*others, replace(last, key=(last.key or b"") + b"k" * more, value=bytes(filling))], **fields)
            if len(built) == size:
                return built
    raise ValueError(f"no batch of {len(records)} records has {size} bytes")


def segment_in(
    directory: Path, base_offset: int = 0, *, clock: Clock | None = None, disk: Disk | None = None, **config: Any
) -> Segment:
    """The segment in the directory, or a new one if there is none."""
    pool = HandlePool(disk or Disk())
    path = directory / f"{base_offset:020d}.log"
    make = Segment if path.exists() else Segment.create
    return make(pool, str(directory), base_offset, LogConfig(**config), clock or ManualClock(), random.Random(0))


def append(segment: Segment, *appends: bytes) -> None:
    """One append per argument; an argument may hold several batches."""
    for data in appends:
        units = [
            AppendUnit(batch.last_offset, batch.size, batch.max_timestamp, batch.last_offset) for batch in iter_batches(data)
        ]
        segment.append([data], units)


def offset_entries(segment: Segment) -> list[tuple[int, int]]:
    index = segment.offset_index
    return [(entry.offset, entry.position) for entry in map(index.entry, range(index.entries))]


def time_entries(segment: Segment) -> list[tuple[int, int]]:
    index = segment.time_index
    return [(entry.timestamp, entry.offset) for entry in map(index.entry, range(index.entries))]


def offsets_in(segment: Segment) -> list[int]:
    return [record.offset for _, batch in segment.log.batches() for record in batch.records()]
