"""What a log has to carry: how large its batches are and how fast they come. Measured in a log, or made up from three figures.

From figures there are no batches to look at, so they are assumed, and the assumption is said: a producer sends what arrives
within 5 ms (`linger.ms` of Kafka 4), at least one record, at most 16,384 bytes (`batch.size`), not compressed, all batches
alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from milepost.errors import InvalidArgument
from milepost.inspect.tune.density import SegmentBatches, batches_of
from milepost.log.log import Log
from milepost.record.batch import HEADER_SIZE

LINGER_MS = 5
BATCH_SIZE = 16_384
# A sample of so many of the sparsest entries is long enough for the first one, which comes late, not to matter.
SAMPLED_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class Workload:
    """`rate` is in bytes per second, None when nothing tells it. `assumption` is empty for a log that was measured."""

    batches: int
    records: int
    size: int
    smallest_batch: int
    largest_batch: int
    rate: float | None
    assumption: str = ""

    @property
    def batch_bytes(self) -> float:
        return self.size / self.batches

    @property
    def record_bytes(self) -> float:
        return self.size / self.records


class Measured:
    """The batches of a log, segment by segment; what they add up to is known when they have all gone by."""

    def __init__(self, log: Log, progress: Callable[[int], None] | None = None):
        self._log = log
        self._progress = progress
        self.batches = self.records = self.size = self.largest_batch = 0
        self.smallest_batch = 2**31
        self._oldest, self._newest = 2**63, -1

    def segments(self) -> Iterator[SegmentBatches]:
        for segment in self._log.segments:
            found = batches_of(segment)
            if len(found.sizes):
                self._count(found)
                yield found
            if self._progress is not None:
                self._progress(self.size)

    def _count(self, found: SegmentBatches) -> None:
        self.batches += len(found.sizes)
        self.records += found.last_offsets[-1] + 1 - found.base_offset
        self.size += sum(found.sizes)
        self.smallest_batch = min(self.smallest_batch, min(found.sizes))
        self.largest_batch = max(self.largest_batch, max(found.sizes))
        stamped = [timestamp for timestamp in found.max_timestamps if timestamp >= 0]
        if stamped:
            self._oldest, self._newest = min(self._oldest, min(stamped)), max(self._newest, max(stamped))

    def workload(self, records_per_second: float | None = None) -> Workload:
        if not self.batches:
            raise InvalidArgument(f"{self._log.directory}: no batches to measure; leave DIR out and give --record-bytes and --rate")
        rate = None
        if records_per_second is not None:
            rate = records_per_second * self.size / self.records
        elif self._newest > self._oldest:
            rate = self.size * 1000 / (self._newest - self._oldest)
        return Workload(self.batches, self.records, self.size, self.smallest_batch, self.largest_batch, rate)


def assumed_workload(record_bytes: int, records_per_second: float, segment_bytes: int) -> Workload:
    """A segment full of equal batches."""
    if record_bytes < 1 or records_per_second <= 0:
        raise InvalidArgument(
            f"--record-bytes {record_bytes} and --rate {records_per_second:g}: a record has at least one byte, a rate is above 0"
        )
    most = max(1, (BATCH_SIZE - HEADER_SIZE) // record_bytes)
    records = min(max(1, math.floor(records_per_second * LINGER_MS / 1000)), most)
    batch_bytes = HEADER_SIZE + records * record_bytes
    if batch_bytes > segment_bytes:
        raise InvalidArgument(f"a batch of {batch_bytes} bytes does not fit a segment of {segment_bytes}: raise --segment-bytes")
    batches = segment_bytes // batch_bytes
    size = "one record" if records == 1 else f"{records} records"
    assumption = (
        f"Batches of {size}, {batch_bytes:,} bytes, are assumed: what arrives within {LINGER_MS} ms (linger.ms), up to "
        f"{BATCH_SIZE:,} bytes (batch.size), not compressed."
    )
    rate = records_per_second * batch_bytes / records
    return Workload(batches, batches * records, batches * batch_bytes, batch_bytes, batch_bytes, rate, assumption)


def sample_of(workload: Workload, intervals: Iterable[int]) -> SegmentBatches:
    """The start of a segment with equal batches 5 ms apart, long enough for the sparsest of the intervals."""
    batch_bytes = workload.largest_batch
    needed = SAMPLED_ENTRIES * (max(intervals) // batch_bytes + 1)
    records = workload.records // workload.batches
    sample = SegmentBatches(0)
    for number in range(min(workload.batches, needed)):
        sample.add((number + 1) * records - 1, number * batch_bytes, batch_bytes, number * LINGER_MS)
    return sample
