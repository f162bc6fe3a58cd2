"""What would end a segment first: its size, its time, or one of its indexes.

Entries come in pairs, 8 bytes in the `.index` and 12 in the `.timeindex`; the `.timeindex` counts as full one slot early,
because the last one is kept for the entry that closes the segment. So of the two it is the one that fills first, at 873,812
entries with the default of 10 MiB.

A roll is forecast as the smallest of four sizes: `segment.bytes`; what arrives within `segment.ms`; what the `.index` and the
`.timeindex` have room for at the density that was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.config import LogConfig
from milepost.inspect.tune.density import OFFSET_ENTRY, TIME_ENTRY, Density
from milepost.inspect.tune.workload import Workload

# Below this many entries a mean says nothing; the size of a batch says more.
ENOUGH_ENTRIES = 8


@dataclass(frozen=True, slots=True)
class Roll:
    """What ends a segment first, after how many bytes, and after how many milliseconds if the rate is known."""

    cause: str
    size: int
    after_ms: int | None


def index_room(index_bytes: int) -> tuple[int, int]:
    """How many entries of the `.index` and of the `.timeindex` end a segment."""
    return index_bytes // OFFSET_ENTRY, max(0, index_bytes // TIME_ENTRY - 1)


def most_entries(segment_bytes: int, interval: int) -> int:
    """The most entries a segment can have: one per `interval` bytes. 1 GiB at 4096: 262,144, which is 2 MiB of `.index`."""
    return segment_bytes // max(1, interval)


def filling_interval(segment_bytes: int, index_bytes: int) -> tuple[int, int]:
    """Below which index.interval.bytes the `.index` and the `.timeindex` can be full before the segment is."""
    entries, time_entries = index_room(index_bytes)
    return segment_bytes // max(1, entries), segment_bytes // max(1, time_entries)


def forecast(density: Density, workload: Workload, config: LogConfig) -> Roll:
    entries, time_entries = index_room(config.segment_index_bytes)
    if density.entries >= ENOUGH_ENTRIES:
        per_entry = workload.size / density.entries
        # Where timestamps stand still there are fewer time entries. Never more: a log of short segments has many closing
        # ones, a long segment has one.
        per_time_entry = max(per_entry, workload.size / max(1, density.time_entries))
    else:
        per_entry = per_time_entry = (density.interval // workload.batch_bytes + 1) * workload.batch_bytes
    ends = [("size", float(config.segment_bytes))]
    if workload.rate is not None:
        ends.append(("time", workload.rate * config.max_segment_ms / 1000))
    ends += [(".index", entries * per_entry), (".timeindex", time_entries * per_time_entry)]
    cause, size = min(ends, key=lambda end: end[1])
    return Roll(cause, int(size), None if workload.rate is None else int(size / workload.rate * 1000))
