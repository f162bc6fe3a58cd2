"""Which segments of a log are old enough to go: below the log start, beyond the size, past the time.

One pass asks three questions, each of the oldest segment first and no further than the first "no":

    log start   does the next segment start at or below the log start? (records were deleted by request)     any cleanup.policy
    size        does the log still hold `retention.bytes` without this segment?                              delete
    time        is its newest record older than `retention.ms`? (without timestamps: the file's age)         delete

A segment goes as a whole, only if the high watermark has passed its end, and never if it is the last one and empty. When every
segment may go, the log rolls first, so that its end offset has a segment to live in. A record stamped far in the future keeps its
segment, and all behind it, from being deleted by time: as in Kafka.

`Log.delete_segments` does the deleting: the new log start is published, files are renamed to `.deleted`, and removed after
`file.delete.delay.ms` (W-6 in `tests/crash/test_write_order.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from milepost.log.maintenance.contained import contained
from milepost.segment.segment import Segment

if TYPE_CHECKING:
    from milepost.log.log import Log

# Of a segment and the base offset of the one behind it, None for the last.
Question = Callable[[Segment, "int | None"], bool]


def retain(log: Log) -> None:
    """One pass over the log. One that fails is for its operator, and no reason to leave out the other logs."""
    if not log.is_failed:
        with contained(f"{log.directory}: retention", log):
            delete_old_segments(log)


def delete_old_segments(log: Log) -> int:
    """One pass over the log; how many segments went."""
    deleted = delete_below_start(log)
    if log.config.delete:
        deleted += delete_by_size(log) + delete_by_time(log)
    return deleted


def delete_below_start(log: Log) -> int:
    def is_below_start(segment: Segment, next_base: int | None) -> bool:
        return next_base is not None and next_base <= log.start_offset

    return log.delete_segments(deletable_segments(log, is_below_start))


def delete_by_size(log: Log) -> int:
    excess = log.segments.size_in_bytes - log.config.retention_bytes
    if log.config.retention_bytes < 0 or excess < 0:
        return 0

    def is_excess(segment: Segment, next_base: int | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return log.delete_segments(deletable_segments(log, is_excess))


def delete_by_time(log: Log) -> int:
    if log.config.retention_ms < 0:
        return 0
    now = log.clock.now_ms()

    def is_expired(segment: Segment, next_base: int | None) -> bool:
        return now - segment.largest_timestamp > log.config.retention_ms

    return log.delete_segments(deletable_segments(log, is_expired))


def deletable_segments(log: Log, may_go: Question) -> list[Segment]:
    """The segments from the oldest on that may go, up to the first that may not."""
    found = []
    for segment in log.segments:
        next_base = log.segments.next_base(segment)
        is_last_and_empty = next_base is None and not segment.size
        end = log.end_offset if next_base is None else next_base
        if is_last_and_empty or log.high_watermark < end or not may_go(segment, next_base):
            break
        found.append(segment)
    return found
