"""How far one trigger of a stream goes: everything there is, or what the options allow.

    maxOffsetsPerTrigger   at most about so many offsets, shared by backlog
    maxBytesPerTrigger     at most about so many bytes of log, shared by bytes
    minOffsetsPerTrigger   wait until there are so many, but no longer than maxTriggerDelay since the last trigger that read something

With Trigger.AvailableNow the end is what was there when the query began; it is reached in as many triggers as the limits call for, and
nothing is waited for. Spark may also ask for everything at once (Trigger.Once): then no limit holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from milepost.spark.offset_range import ranges_between, spread_limit
from milepost.spark.options import SourceOptions
from milepost.spark.transport import Transport
from milepost.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Admission:
    def __init__(self, options: SourceOptions, monotonic: Callable[[], float] = time.monotonic):
        self.options = options
        self._monotonic = monotonic
        self._last_batch = monotonic()
        self._frozen: dict[TopicPartition, int] | None = None

    @property
    def is_limited(self) -> bool:
        options = self.options
        limits = (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_bytes_per_trigger)
        return any(limit is not None for limit in limits)

    def freeze(self, latest: Offsets) -> None:
        """From now on nothing behind these offsets is read."""
        self._frozen = dict(latest)

    @property
    def frozen(self) -> dict[TopicPartition, int] | None:
        return self._frozen

    def target(self, starts: Offsets, latest: Offsets, transport: Transport, *, is_limited: bool) -> dict[TopicPartition, int]:
        """Where the next trigger ends; the starts themselves when it should not read yet."""
        ends = dict(latest)
        if self._frozen is not None:
            ends = {
                partition: min(end, self._frozen[partition]) for partition, end in latest.items() if partition in self._frozen
            }
        ranges = ranges_between(starts, ends)
        waiting = sum(each.size for each in ranges)
        if is_limited and waiting and self._frozen is None and self._is_too_early(waiting):
            return {**dict(starts)}
        if is_limited and self.options.max_offsets_per_trigger is not None:
            ends |= spread_limit(ranges, self.options.max_offsets_per_trigger)
        if is_limited and self.options.max_bytes_per_trigger is not None and ranges:
            by_bytes = transport.limit_bytes(ranges, self.options.max_bytes_per_trigger)
            ends |= {partition: min(ends[partition], end) for partition, end in by_bytes.items()}
        if waiting:
            self._last_batch = self._monotonic()
        return ends

    def _is_too_early(self, waiting: int) -> bool:
        least = self.options.min_offsets_per_trigger
        if least is None or waiting >= least:
            return False
        return (self._monotonic() - self._last_batch) * 1000 < self.options.max_trigger_delay_ms
