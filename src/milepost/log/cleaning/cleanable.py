"""How dirty a log is: which part of it a cleaning may touch, and whether that is worth it.

    start ......... first_dirty_offset ......... first_uncleanable_offset ......... end
          clean                     cleanable                     not yet

The cleanable part ends at the first of

    the last stable offset        beyond it transactions are undecided, and followers may not have the records
    the active segment
    a dirty segment with a record younger than `min.compaction.lag.ms`
    a segment with damaged bytes  cleaning would turn the hole into a gap that is not reported

rounded down to the start of a segment. What is clean is told by the cleaner's checkpoint; one that lies outside the log is wrong,
and everything counts as dirty.

A log is due when cleanable / (clean + cleanable) bytes exceed `min.cleanable.dirty.ratio`, or when its oldest dirty
record is older than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from milepost.log.log import Log
    from milepost.segment.segment import Segment


@frozen_dataclass
class LogToClean:
    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool = False
    checkpoint_was_wrong: bool = False

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.ratio > self.log.config.min_cleanable_dirty_ratio or (self.is_overdue and self.cleanable_bytes > 0)


def measure(log: Log, checkpoint: int | None) -> LogToClean:
    """How dirty the log is, given how far it was cleaned (None: never)."""
    first_dirty = log.start_offset if checkpoint is None else checkpoint
    is_wrong = not log.start_offset <= first_dirty <= log.end_offset
    if is_wrong:
        first_dirty = log.start_offset
    dirty = _dirty_segments(log, first_dirty)
    uncleanable = max(first_dirty, _first_uncleanable(log, dirty))
    boundary = log.segments.floor(min(uncleanable, log.segments.active.base_offset))
    first_uncleanable = log.segments.first.base_offset if boundary is None else boundary.base_offset
    return LogToClean(
        log,
        first_dirty,
        first_uncleanable,
        clean_bytes=sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        cleanable_bytes=sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable),
        is_overdue=_is_overdue(log, dirty),
        checkpoint_was_wrong=is_wrong,
    )


def _dirty_segments(log: Log, first_dirty: int) -> list[Segment]:
    """From the segment that holds `first_dirty` to the one before the active."""
    active = log.segments.active.base_offset
    return log.segments.between(first_dirty, active) if first_dirty < active else []


def _first_uncleanable(log: Log, dirty: list[Segment]) -> int:
    limits = [log.last_stable_offset, log.segments.active.base_offset]
    limits += [segment.base_offset for segment in log.segments if segment.log.holes]
    if log.config.min_compaction_lag_ms > 0:
        too_young = log.clock.now_ms() - log.config.min_compaction_lag_ms
        limits += [segment.base_offset for segment in dirty if segment.largest_timestamp > too_young][:1]
    return min(limits)


def _is_overdue(log: Log, dirty: list[Segment]) -> bool:
    times = [segment.first_timestamp for segment in dirty]
    oldest = min((time for time in times if time is not None and time > 0), default=None)
    return oldest is not None and log.clock.now_ms() - log.config.max_compaction_lag_ms > oldest
