"""The two sparse indexes of a segment, written anew from its `.log` by the per-batch rule.

An entry is due when more than `index.interval.bytes` of log lie behind the last one; the time index gets one with it, of the largest
timestamp so far. `seal` trims both at the end.

`IndexedSegment` is what a rebuild needs of a segment: a segment calls it for itself when its indexes do not fit its log, and recovery
(`recovery`) while it checks the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.record.batch import NO_TIMESTAMP
from milepost.segment.time_index import TimestampOffset

if TYPE_CHECKING:
    from milepost.config.topic import LogConfig
    from milepost.record.batches import AnyBatch
    from milepost.segment.file_records import FileRecords
    from milepost.segment.offset_index import OffsetIndex
    from milepost.segment.time_index import TimeIndex


class IndexedSegment(Protocol):
    base_offset: int
    config: LogConfig
    log: FileRecords
    offset_index: OffsetIndex
    time_index: TimeIndex
    max_so_far: TimestampOffset

    @property
    def is_index_full(self) -> bool: ...

    def activate(self) -> None: ...

    def seal(self) -> None: ...


def rebuild_indexes(segment: IndexedSegment) -> None:
    """Rebuild the offset and time index of a segment whose log is trusted."""
    was_active = segment.offset_index.is_active
    rebuild = IndexRebuild(segment)
    for position, batch in segment.log.batches():
        rebuild.add(batch, position)
    rebuild.finish()
    if was_active:
        segment.activate()


class IndexRebuild:
    """The two sparse indexes of a segment, being written anew."""

    def __init__(self, segment: IndexedSegment):
        self.segment = segment
        self.last_indexed = 0
        self.max = TimestampOffset(NO_TIMESTAMP, segment.base_offset)
        segment.offset_index.reset()
        segment.time_index.reset()

    def add(self, batch: AnyBatch, position: int) -> None:
        segment = self.segment
        if batch.max_timestamp > self.max.timestamp:
            self.max = TimestampOffset(batch.max_timestamp, batch.last_offset)
        if position - self.last_indexed > segment.config.index_interval_bytes and not segment.is_index_full:
            segment.offset_index.append(batch.last_offset, position)
            segment.time_index.maybe_append(self.max.timestamp, self.max.offset)
            self.last_indexed = position

    def finish(self) -> None:
        self.segment.max_so_far = self.max
        self.segment.seal()
