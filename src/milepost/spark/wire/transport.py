"""Reading a log from brokers: which partitions, from where to where, in which tasks.

Offsets and times are what the leaders answer (ListOffsets), so they mean what they mean to every consumer. How many bytes lie between two
offsets no broker says; it is estimated from the size of each partition (DescribeLogDirs) and how many offsets it holds. Tasks are of
nearly equal bytes by that estimate: a large partition is read by several, several small ones by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from milepost.client.admin import log_sizes
from milepost.client.offsets import EARLIEST, LATEST, ends, list_offsets
from milepost.errors import InvalidArgument, MilepostError
from milepost.spark.offset_range import OffsetRange, cut, divide
from milepost.spark.options import SourceOptions
from milepost.spark.subscription import Subscription
from milepost.spark.transport import Split, Transport
from milepost.spark.wire.settings import WireSettings
from milepost.spark.wire.split import WireSplit
from milepost.topic_partition import TopicPartition

TASK_BYTES = 64 << 20
GUESSED_RECORD_BYTES = 100


class WireTransport(Transport):
    def __init__(self, options: SourceOptions):
        self.options = options
        self.settings = WireSettings.of(options)
        self.cluster = self.settings.connect()

    def close(self) -> None:
        self.cluster.close()

    # What is there.

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        named = self._named(subscription)
        try:
            return subscription.chosen(self._existing(named), self.settings.bootstrap_servers)
        except InvalidArgument:
            if named is None:
                raise
            # The sentence names the topics that are there, which were not asked for.
            return subscription.chosen(self._existing(None), self.settings.bootstrap_servers)

    def remaining(self, subscription: Subscription) -> list[TopicPartition]:
        return subscription.existing(self._existing(self._named(subscription)))

    def _named(self, subscription: Subscription) -> set[str] | None:
        if subscription.assign is not None:
            return {partition.topic for partition in subscription.assign}
        return None if subscription.topics is None else set(subscription.topics)

    def _existing(self, named: set[str] | None) -> list[TopicPartition]:
        self.cluster.forget()
        info = self.cluster.refresh(named)
        return [
            TopicPartition(topic.name, partition.partition)
            for topic in info.topics.values()
            if not topic.error_code
            for partition in topic.partitions
        ]

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return ends(self.cluster, partitions, EARLIEST)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return ends(self.cluster, partitions, LATEST, self.settings.isolation)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = list_offsets(self.cluster, times, self.settings.isolation)
        return {partition: None if offset is None else offset.offset for partition, offset in found.items()}

    # Bytes.

    def _densities(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """Bytes for each offset, about. A broker that does not tell its sizes is guessed to hold small records."""
        wanted = list(dict.fromkeys(partitions))
        try:
            sizes = log_sizes(self.cluster, wanted)
        except MilepostError:
            return dict.fromkeys(wanted, float(GUESSED_RECORD_BYTES))
        first, last = self.earliest(wanted), ends(self.cluster, wanted, LATEST)
        return {
            each: sizes.get(each, 0) / (last[each] - first[each]) if last[each] > first[each] else float(GUESSED_RECORD_BYTES)
            for each in wanted
        }

    def bytes_between(self, ranges: Sequence[OffsetRange]) -> int:
        densities = self._densities(each.partition for each in ranges)
        return int(sum(each.size * densities[each.partition] for each in ranges))

    def limit_bytes(self, ranges: Sequence[OffsetRange], max_bytes: int) -> dict[TopicPartition, int]:
        densities = self._densities(each.partition for each in ranges)
        total = sum(each.size * densities[each.partition] for each in ranges)
        share = min(1.0, max_bytes / total) if total else 1.0
        return {each.partition: min(each.end, each.start + max(1, math.ceil(each.size * share))) for each in ranges}

    # Tasks.

    def plan(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        options = self.options
        densities = self._densities(each.partition for each in ranges)
        if options.min_partitions is not None or options.max_records_per_partition is not None:
            pieces = divide(ranges, options.min_partitions, options.max_records_per_partition)
            return [self._split([piece], densities) for piece in pieces]
        share = options.max_bytes_per_partition or TASK_BYTES
        tasks: list[list[OffsetRange]] = []
        room = 0.0
        for each in ranges:
            parts = max(1, math.ceil(each.size * densities[each.partition] / share))
            for piece in cut(each, min(parts, each.size)):
                size = piece.size * densities[piece.partition]
                if not tasks or size > room:
                    tasks.append([])
                    room = share
                tasks[-1].append(piece)
                room -= size
        return [self._split(task, densities) for task in tasks]

    def _split(self, ranges: list[OffsetRange], densities: Mapping[TopicPartition, float]) -> WireSplit:
        size = int(sum(each.size * densities[each.partition] for each in ranges))
        return WireSplit(tuple(ranges), self.settings, size)
