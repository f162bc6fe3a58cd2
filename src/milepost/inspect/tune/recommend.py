"""The settings to take, each with its reason in one sentence.

    index.interval.bytes   with a longest walk asked for: the largest interval that keeps to it. Otherwise Kafka's default, unless
                           records are small and lookups by time are frequent: 2048, or 1024 for records up to 256 bytes.
    segment.bytes          what is set, unless a segment takes longer to fill than a seventh of retention.ms (old records go only
                           with their whole segment, so such a log keeps more than it was asked to), or so short that
                           more than a thousand of them lie there until retention.ms is over.
    segment.index.bytes    what is set, unless a segment can get more entries: then enough for it.
    segment.ms             what is set, unless a segment does not fill within it or within a seventh of retention.ms: then that.
    segment.jitter.ms      a tenth of segment.ms if time ends the segments, else none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from milepost.config import LogConfig
from milepost.inspect.amounts import bytes_text, duration_text
from milepost.inspect.tune.density import TIME_ENTRY
from milepost.inspect.tune.forecast import Roll, most_entries
from milepost.inspect.tune.workload import Workload

DEFAULT_INTERVAL = 4096
SMALL_RECORD, TINY_RECORD = 1024, 256
SMALLEST_SEGMENT = 16 << 20
LARGEST_SEGMENT = 1 << 30
PARTS_OF_RETENTION = 7
MANY_SEGMENTS = 1000
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Choice:
    """One index.interval.bytes: what its indexes take, how far lookups walk, and what ends a segment."""

    interval: int
    entries: int
    index_bytes: int
    time_index_bytes: int
    by_offset_mean: float
    by_offset_worst: int
    by_time_mean: float
    by_time_worst: int
    roll: Roll


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: int
    reason: str


def recommend(
    choices: Sequence[Choice], workload: Workload, config: LogConfig, by_time: bool, max_scan: int | None
) -> tuple[Setting, ...]:
    if max_scan is None:
        interval, why = _usual_interval(choices, workload, by_time)
    else:
        interval, why = _interval_within(choices, by_time, max_scan)
    segment_bytes, why_bytes = _segment_bytes(workload, config)
    segment_ms, why_ms = _segment_ms(workload, config, segment_bytes)
    index_bytes, why_index = _segment_index_bytes(workload, config, interval, segment_bytes)
    jitter, why_jitter = _jitter(workload, segment_bytes, segment_ms)
    return (
        Setting("index.interval.bytes", interval, why),
        Setting("segment.bytes", segment_bytes, why_bytes),
        Setting("segment.index.bytes", index_bytes, why_index),
        Setting("segment.ms", segment_ms, why_ms),
        Setting("segment.jitter.ms", jitter, why_jitter),
    )


def _usual_interval(choices: Sequence[Choice], workload: Workload, by_time: bool) -> tuple[int, str]:
    interval = DEFAULT_INTERVAL
    if by_time and workload.record_bytes <= SMALL_RECORD:
        interval = 1024 if workload.record_bytes <= TINY_RECORD else 2048
    choice = next(choice for choice in choices if choice.interval == interval)
    mean = choice.by_time_mean if by_time else choice.by_offset_mean
    walk = f"a lookup walks {bytes_text(mean)} on average, {bytes_text(_worst(choice, by_time))} at most"
    if interval != DEFAULT_INTERVAL:
        return interval, f"Records are small and looked up by time, so short walks are worth a longer index: {walk}."
    if workload.batch_bytes > DEFAULT_INTERVAL:
        each = bytes_text(workload.batch_bytes)
        return interval, f"Batches of {each} on average get an entry each anyway, so a smaller interval would change little."
    share = 100 * (choice.index_bytes + choice.time_index_bytes) / workload.size
    return interval, f"Kafka's default suits it: {walk}, and the indexes take {share:.2f} % of the log."


def _interval_within(choices: Sequence[Choice], by_time: bool, max_scan: int) -> tuple[int, str]:
    fitting = [choice for choice in choices if _worst(choice, by_time) <= max_scan]
    if not fitting:
        least = choices[0]
        longest = bytes_text(_worst(least, by_time))
        return least.interval, f"Even this walks up to {longest}, more than {bytes_text(max_scan)}: only smaller batches would help."
    best = fitting[-1]
    longest = bytes_text(_worst(best, by_time))
    return best.interval, f"It is the largest whose longest walk, {longest}, keeps to the {bytes_text(max_scan)} asked for."


def _worst(choice: Choice, by_time: bool) -> int:
    return max(choice.by_time_worst, choice.by_offset_worst) if by_time else choice.by_offset_worst


def _segment_bytes(workload: Workload, config: LogConfig) -> tuple[int, str]:
    given, retention, rate = config.segment_bytes, config.retention_ms, workload.rate
    if rate is None:
        return given, "How fast records arrive is not known, so there is no reason to change it; --rate would tell."
    fills = given / rate * 1000
    filling = f"At {bytes_text(rate)} a second {bytes_text(given)} fill in {duration_text(fills)}"
    if retention < 0:
        return given, f"{filling}, and retention.ms deletes nothing."
    # A power of two, as people like them; the logarithm is taken of at least one byte.
    fitting = 2 ** int(math.log2(max(1.0, rate * retention / PARTS_OF_RETENTION / 1000)))
    larger, smaller = min(LARGEST_SEGMENT, fitting), max(SMALLEST_SEGMENT, fitting)
    segments = retention / fills
    if segments > MANY_SEGMENTS and larger > given:
        return larger, (
            f"{filling}, and {segments:,.0f} of them would lie there until retention.ms ({duration_text(retention)}); "
            f"{bytes_text(larger)} fill in {duration_text(larger / rate * 1000)}."
        )
    if fills <= retention / PARTS_OF_RETENTION:
        return given, f"{filling}, so retention.ms ({duration_text(retention)}) can drop old records soon after their time."
    if smaller >= given:
        return given, f"{filling}: smaller ones would only be more files, and segment.ms ends them earlier."
    return smaller, (
        f"{filling}, and records would stay that much longer than retention.ms ({duration_text(retention)}); "
        f"{bytes_text(smaller)} fill in {duration_text(smaller / rate * 1000)}."
    )


def _segment_index_bytes(workload: Workload, config: LogConfig, interval: int, segment_bytes: int) -> tuple[int, str]:
    given = config.segment_index_bytes
    most = most_entries(segment_bytes, max(interval, workload.smallest_batch))
    # The slot that is kept for the closing entry, and the one that must stay free for the index not to be full.
    needed = TIME_ENTRY * (most + 2)
    if needed <= given:
        return given, f"Its room is enough: a segment gets at most {most:,} time entries, {bytes_text(TIME_ENTRY * most)}."
    value = -(-needed // MEBIBYTE) * MEBIBYTE
    return value, f"A segment can get {most:,} time entries of 12 bytes; {bytes_text(given)} would be full and end it early."


def _segment_ms(workload: Workload, config: LogConfig, segment_bytes: int) -> tuple[int, str]:
    given, rate = config.segment_ms, workload.rate
    if rate is None:
        return given, "How fast records arrive is not known, so there is no reason to change it; --rate would tell."
    fills = segment_bytes / rate * 1000
    soon = given if config.retention_ms < 0 else max(1, min(given, config.retention_ms // PARTS_OF_RETENTION))
    if fills <= soon:
        return given, f"Size ends a segment first, after {duration_text(fills)}; this is for times when less arrives."
    return soon, f"Size would end a segment only after {duration_text(fills)}, so time does it, every {duration_text(soon)}."


def _jitter(workload: Workload, segment_bytes: int, segment_ms: int) -> tuple[int, str]:
    if workload.rate is None:
        return 0, "It is needed only where time ends the segments, which is not known here."
    if segment_bytes / workload.rate * 1000 <= segment_ms:
        return 0, "Size ends the segments, and partitions fill up at different moments by themselves."
    return segment_ms // 10, "Time ends the segments, and without it partitions that began together would all roll together."
