"""From what the options say to offsets: where each partition is read from and to, by the connector's rules.

- a map by partition names exactly the partitions that are subscribed to, no fewer and no more
- a start above the end is a mistake; so is a time that no record is as new as, for a start, unless the strategy says latest
- an end that no record is as new as is the end of the log
- offsets that are gone (below the first, or above the last there is) are data loss: an error, or a warning and a smaller range
  when failOnDataLoss is false. Gaps between are none: compaction and transaction markers leave them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from milepost.errors import InvalidArgument, OffsetOutOfRange
from milepost.spark import bound
from milepost.spark.bound import Bound
from milepost.spark.offset_range import OffsetRange
from milepost.spark.options import SourceOptions
from milepost.spark.transport import Transport
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")

Offsets = dict[TopicPartition, int]


def batch_ranges(options: SourceOptions, transport: Transport, now_ms: int) -> list[OffsetRange]:
    """What a batch query reads; empty ranges are left out."""
    partitions = transport.partitions(options.subscription)
    if options.starting.by_partition and options.ending.by_partition:
        _check_same(options.starting, options.ending)
    earliest, latest = transport.earliest(partitions), transport.latest(partitions)
    starts = _resolve_start(options, transport, partitions, earliest, latest, now_ms)
    ends = _resolve_end(options.ending, transport, partitions, latest)
    found = []
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if start > end:
            raise InvalidArgument(
                f"{partition}: the query starts at offset {start} ({options.starting.option}) and ends at {end} "
                f"({options.ending.option}); the start may not lie behind the end"
            )
        start, end = within(options, partition, start, end, earliest[partition], latest[partition])
        if start < end:
            found.append(OffsetRange(partition, start, end))
    return found


def starting_offsets(
    options: SourceOptions, transport: Transport, partitions: list[TopicPartition], now_ms: int
) -> dict[TopicPartition, int]:
    """Where a stream begins that has no checkpoint yet."""
    earliest, latest = transport.earliest(partitions), transport.latest(partitions)
    starts = _resolve_start(options, transport, partitions, earliest, latest, now_ms)
    for partition, start in starts.items():
        if not earliest[partition] <= start <= latest[partition]:
            there = f"the log holds {earliest[partition]} to {latest[partition] - 1}"
            data_loss(options, f"{partition}: {options.starting.option} says {start}, and {there}")
            starts[partition] = min(max(start, earliest[partition]), latest[partition])
    return starts


def within(
    options: SourceOptions, partition: TopicPartition, start: int, end: int, earliest: int, latest: int
) -> tuple[int, int]:
    """The part of a range that is still there, and data loss for what is not."""
    if start < end and (start < earliest or end > latest):
        there = f"the log holds {earliest} to {latest - 1}" if earliest < latest else f"the log is empty at {earliest}"
        data_loss(options, f"{partition}: offsets {start} to {end - 1} are asked for, and {there}")
    return min(max(start, earliest), latest), min(max(end, earliest), latest)


def data_loss(options: SourceOptions, sentence: str) -> None:
    if options.fail_on_data_loss:
        raise OffsetOutOfRange(f"data loss: {sentence}. To read what is left, set failOnDataLoss to false")
    logger.warning("data loss: %s; the query goes on without them", sentence)


def _check_same(starting: Bound, ending: Bound) -> None:
    differing = sorted(set(starting.by_partition) ^ set(ending.by_partition))
    if differing:
        named = ", ".join(map(str, differing))
        raise InvalidArgument(
            f"{starting.option} and {ending.option} name different partitions: {named} stands in only one of them"
        )


def _resolve_start(
    options: SourceOptions,
    transport: Transport,
    partitions: list[TopicPartition],
    earliest: Offsets,
    latest: Offsets,
    now_ms: int,
) -> Offsets:
    start = options.starting
    if start.kind == bound.EARLIEST:
        return dict(earliest)
    if start.kind == bound.LATEST:
        return dict(latest)
    if start.kind == bound.LAST:
        return {partition: max(earliest[partition], latest[partition] - start.number) for partition in partitions}
    _check_named(start, partitions)
    if start.kind == bound.OFFSETS:
        special = {bound.EARLIEST_OFFSET: earliest, bound.LATEST_OFFSET: latest}
        offsets = start.by_partition
        return {each: special[offsets[each]][each] if offsets[each] < 0 else offsets[each] for each in partitions}
    times = _times(start, partitions, now_ms)
    found = transport.offsets_for_times(times)
    starts = {}
    for partition in partitions:
        offset = found[partition]
        if offset is None:
            if options.starting_strategy == "error" and start.kind != bound.BACK:
                raise InvalidArgument(
                    f"{partition}: no record is as new as {times[partition]} ({start.option}); "
                    "startingOffsetsByTimestampStrategy=latest starts at the end then"
                )
            offset = latest[partition]
        starts[partition] = offset
    return starts


def _resolve_end(end: Bound, transport: Transport, partitions: list[TopicPartition], latest: Offsets) -> Offsets:
    if end.kind == bound.LATEST:
        return dict(latest)
    _check_named(end, partitions)
    if end.kind == bound.OFFSETS:
        offsets = end.by_partition
        return {each: latest[each] if offsets[each] == bound.LATEST_OFFSET else offsets[each] for each in partitions}
    found = transport.offsets_for_times(_times(end, partitions, 0))
    return {each: latest[each] if (offset := found[each]) is None else offset for each in partitions}


def _times(at: Bound, partitions: list[TopicPartition], now_ms: int) -> dict[TopicPartition, int]:
    if at.kind == bound.TIMESTAMPS:
        return {partition: at.by_partition[partition] for partition in partitions}
    return dict.fromkeys(partitions, now_ms - at.number if at.kind == bound.BACK else at.number)


def _check_named(at: Bound, partitions: list[TopicPartition]) -> None:
    if at.kind not in (bound.OFFSETS, bound.TIMESTAMPS):
        return
    missing = sorted(set(partitions) - set(at.by_partition))
    foreign = sorted(set(at.by_partition) - set(partitions))
    if missing or foreign:
        parts = [f"{', '.join(map(str, missing))} missing"] if missing else []
        parts += [f"{', '.join(map(str, foreign))} not subscribed to"] if foreign else []
        raise InvalidArgument(f"{at.option} must name exactly the partitions that are read: {' and '.join(parts)}")


# Offsets as Spark keeps them in its checkpoints, in the connector's form: {"page_visits": {"0": 23}}.


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def offsets_from_json(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset for topic, offsets in value.items() for partition, offset in offsets.items()
    }
