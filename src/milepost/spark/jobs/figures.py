"""What a log holds, in numbers that can be added: those of a task, of a partition, of a topic.

Figures            per partition: batches, records, bytes, times, missing offsets, records without key or value
CodecFigures       per partition and codec: how much its batches take, and how much they hold
HourFigures        per topic and hour of the timestamp
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from milepost.topic_partition import TopicPartition


@dataclass(slots=True)
class CodecFigures:
    batches: int = 0
    stored_bytes: int = 0
    """Of the records sections as they lie in the file."""
    plain_bytes: int = 0
    """Of the same, decompressed."""

    def add(self, other: CodecFigures) -> None:
        self.batches += other.batches
        self.stored_bytes += other.stored_bytes
        self.plain_bytes += other.plain_bytes

    @property
    def ratio(self) -> float:
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0


@dataclass(slots=True)
class HourFigures:
    records: int = 0
    bytes: int = 0
    """Of keys and values."""

    def add(self, other: HourFigures) -> None:
        self.records += other.records
        self.bytes += other.bytes


@dataclass(slots=True)
class Figures:
    """Of offsets from `start` up to, not including, `end`; `end` is behind the last batch that was seen."""

    partition: TopicPartition
    start: int
    end: int
    batches: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    records: int = 0
    log_bytes: int = 0
    keyless: int = 0
    tombstones: int = 0
    missing_offsets: int = 0
    oldest: int | None = None
    newest: int | None = None
    """Timestamps, in milliseconds."""
    codecs: dict[str, CodecFigures] = field(default_factory=dict)
    hours: dict[int | None, HourFigures] = field(default_factory=dict)

    def codec(self, name: str) -> CodecFigures:
        return self.codecs.setdefault(name, CodecFigures())

    def hour(self, hour: int | None) -> HourFigures:
        return self.hours.setdefault(hour, HourFigures())

    def add(self, other: Figures) -> None:
        """Those of the offsets behind: between the two, offsets may be missing."""
        self.missing_offsets += other.missing_offsets + max(other.start - self.end, 0)
        self.end = max(self.end, other.end)
        for name in (
            "batches", "control_batches", "transactional_batches", "records", "log_bytes", "keyless", "tombstones",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.see_times(other.oldest, other.newest)
        for codec, figures in other.codecs.items():
            self.codec(codec).add(figures)
        for hour, counted in other.hours.items():
            self.hour(hour).add(counted)

    def see_times(self, oldest: int | None, newest: int | None) -> None:
        self.oldest = min((time for time in (self.oldest, oldest) if time is not None), default=None)
        self.newest = max((time for time in (self.newest, newest) if time is not None), default=None)

    def as_row(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic, "partition": self.partition.partition, "start_offset": self.start, "end_offset": self.end,
            "batches": self.batches, "control_batches": self.control_batches, "transactional_batches": self.transactional_batches,
            "records": self.records, "log_bytes": self.log_bytes, "keyless": self.keyless, "tombstones": self.tombstones,
            "missing_offsets": self.missing_offsets, "oldest_ms": self.oldest, "newest_ms": self.newest,
        }  # fmt: skip
