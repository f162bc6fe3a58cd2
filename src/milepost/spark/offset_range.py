"""Ranges of offsets, and the connector's arithmetic on them: dividing among tasks, and sharing a limit by backlog.

Sizes are in offsets, not records: compaction, transaction markers and aborted transactions leave gaps, and nobody knows them
before reading. Both rules are spark-sql-kafka's:

    divide        a range above the average share is cut into pieces of nearly equal size, the others stay whole; a limit per task
                  cuts every range that is larger; when both are given, the finer division wins. Where the connector rounds each
                  range by itself and may miss the number of pieces by some, it is met here
    spread_limit  each partition gets the limit's share that its backlog has of all backlogs, rounded down but at least one offset
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from milepost.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `start` up to, not including, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def leads_to(self, other: OffsetRange) -> bool:
        """Whether the other goes on where this one ends."""
        return self.partition == other.partition and self.end == other.start

    def __str__(self) -> str:
        return f"{self.partition} from {self.start} to {self.end}"


def divide(ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None) -> list[OffsetRange]:
    """The same offsets in at least `min_partitions` pieces (a hint) of at most `max_records` offsets each."""
    ranges = [each for each in ranges if each.size > 0]
    if max_records is not None:
        bounded = [piece for each in ranges for piece in cut(each, math.ceil(each.size / max_records))]
        if min_partitions is None or len(bounded) >= min_partitions:
            return bounded
    if min_partitions is None or min_partitions <= len(ranges):
        return list(ranges)
    total = sum(each.size for each in ranges)
    average = total / min_partitions
    small = [each for each in ranges if each.size < average]
    # Small ranges stay whole and take a task each; the others share what is left of the tasks.
    left = min_partitions - len(small)
    parts = dict(zip((each for each in ranges if each.size >= average), _shares(ranges, average, left), strict=True))
    return [piece for each in ranges for piece in cut(each, min(parts.get(each, 1), each.size))]


def _shares(ranges: Sequence[OffsetRange], average: float, tasks: int) -> list[int]:
    """How many of the tasks each range from `average` on gets: by its size, at least one, all of them in sum."""
    sizes = [each.size for each in ranges if each.size >= average]
    fair = [tasks * size / sum(sizes) for size in sizes]
    found = [max(1, math.floor(share)) for share in fair]
    largest_rest_first = sorted(range(len(sizes)), key=lambda number: found[number] - fair[number])
    for number in largest_rest_first[: max(0, tasks - sum(found))]:
        found[number] += 1
    return found


def cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """As many pieces, whose sizes differ by one at most."""
    bounds = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(bounds)]


def spread_limit(ranges: Sequence[OffsetRange], limit: int) -> dict[TopicPartition, int]:
    """Where each partition ends when no more than about `limit` offsets are taken in all."""
    total = sum(each.size for each in ranges if each.size > 0)
    ends: dict[TopicPartition, int] = {}
    for each in ranges:
        if each.size <= 0:
            ends[each.partition] = each.start
            continue
        share = limit * (each.size / total)
        # A share below one offset still takes one: a small partition must not wait for the large ones forever.
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[each.partition] = min(each.start + taken, each.end)
    return ends


def ranges_between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The ranges that are not empty, in the order of their partitions; a partition that only `ends` names is left out."""
    pairs = ((partition, starts[partition], ends[partition]) for partition in sorted(starts) if partition in ends)
    return [OffsetRange(partition, start, end) for partition, start, end in pairs if start < end]
