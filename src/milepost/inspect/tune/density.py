"""How dense an index would be: the sparse rule replayed over batches that exist, for an `index.interval.bytes` that does not.

The rule (`segment/segment.py`): when more than `interval` bytes were appended since the last entry, the next batch gets one,
(its last offset, its position), and the time index gets (largest timestamp so far, last offset of the batch that brought it) if
that timestamp grew; the time index gets one more at the end of the segment. The count starts at zero in each segment. Replaying
it gives the very entries that a broker with that setting would have written (profile per-batch): the figures are exact.

    by offset   for every offset of the log: bytes between the index position and the start of the batch that holds the offset
    by time     for every batch that brought a newer timestamp: the same, for a lookup of the first millisecond that it answers

What a lookup reads beyond the walk, the batch that holds the answer, is the same for every interval and not counted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from milepost.record.batch import NO_TIMESTAMP
from milepost.segment.segment import Segment

OFFSET_ENTRY, TIME_ENTRY = 8, 12


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class SegmentBatches:
    """The batches of one segment as columns: what the rule needs to know of each."""

    base_offset: int
    last_offsets: array[int] = field(default_factory=_column)
    positions: array[int] = field(default_factory=_column)
    sizes: array[int] = field(default_factory=_column)
    max_timestamps: array[int] = field(default_factory=_column)

    def add(self, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        self.last_offsets.append(last_offset)
        self.positions.append(position)
        self.sizes.append(size)
        self.max_timestamps.append(max_timestamp)


def batches_of(segment: Segment) -> SegmentBatches:
    """From the headers alone: no record is read."""
    batches = SegmentBatches(segment.base_offset)
    for place in segment.log.positions():
        batches.add(place.last_offset, place.position, place.size, place.max_timestamp)
    return batches


@dataclass(slots=True)
class Entries:
    """The entries one segment would get. The last time entry is the closing one, if it has a timestamp that is not there yet."""

    offsets: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    time_offsets: list[int] = field(default_factory=list)

    def note_time(self, timestamp: int, offset: int) -> None:
        if timestamp > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            self.timestamps.append(timestamp)
            self.time_offsets.append(offset)

    def start_for_time(self, timestamp: int) -> int:
        """Where the walk for a timestamp starts: through the time index, then through the offset index."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        if slot < 0:
            return 0
        slot = bisect_right(self.offsets, self.time_offsets[slot]) - 1
        return self.positions[slot] if slot >= 0 else 0


def replay(batches: SegmentBatches, interval: int) -> Entries:
    entries = Entries()
    since, newest, newest_offset = 0, NO_TIMESTAMP, batches.base_offset
    columns = zip(batches.last_offsets, batches.positions, batches.sizes, batches.max_timestamps, strict=True)
    for last_offset, position, size, timestamp in columns:
        if timestamp > newest:
            newest, newest_offset = timestamp, last_offset
        if since > interval:
            entries.offsets.append(last_offset)
            entries.positions.append(position)
            entries.note_time(newest, newest_offset)
            since = 0
        since += size
    entries.note_time(newest, newest_offset)
    return entries


@dataclass(slots=True)
class Walks:
    """Bytes walked, over all lookups of one kind."""

    total: int = 0
    lookups: int = 0
    worst: int = 0

    def add(self, walked: int, lookups: int) -> None:
        if lookups > 0:
            self.total += walked * lookups
            self.lookups += lookups
            if walked > self.worst:
                self.worst = walked

    @property
    def mean(self) -> float:
        return self.total / self.lookups if self.lookups else 0.0


@dataclass(slots=True)
class Density:
    """One interval over a whole log."""

    interval: int
    entries: int = 0
    time_entries: int = 0
    by_offset: Walks = field(default_factory=Walks)
    by_time: Walks = field(default_factory=Walks)
    newest: int = NO_TIMESTAMP

    @property
    def index_bytes(self) -> int:
        return self.entries * OFFSET_ENTRY

    @property
    def time_index_bytes(self) -> int:
        return self.time_entries * TIME_ENTRY

    def add_segment(self, batches: SegmentBatches) -> None:
        entries = replay(batches, self.interval)
        self.entries += len(entries.offsets)
        self.time_entries += len(entries.timestamps)
        self._walk_offsets(batches, entries)
        self._walk_times(batches, entries)

    def _walk_offsets(self, batches: SegmentBatches, entries: Entries) -> None:
        start, slot, previous = 0, 0, batches.base_offset - 1
        for last_offset, position in zip(batches.last_offsets, batches.positions, strict=True):
            offsets = last_offset - previous
            if slot < len(entries.offsets) and entries.offsets[slot] == last_offset:
                # An entry names the last offset of its batch: only that is found from here, the others from the entry before.
                self.by_offset.add(position - start, offsets - 1)
                self.by_offset.add(0, 1)
                start = position
                slot += 1
            else:
                self.by_offset.add(position - start, offsets)
            previous = last_offset

    def _walk_times(self, batches: SegmentBatches, entries: Entries) -> None:
        for position, timestamp in zip(batches.positions, batches.max_timestamps, strict=True):
            if timestamp > self.newest:
                self.by_time.add(position - entries.start_for_time(self.newest + 1), 1)
                self.newest = timestamp


def densities(segments: Iterable[SegmentBatches], intervals: Iterable[int]) -> list[Density]:
    """Each interval over all segments, which are gone through once."""
    found = [Density(interval) for interval in intervals]
    for batches in segments:
        for density in found:
            density.add_segment(batches)
    return found
