"""What a storage run looks at: the settings of its topics, and what their logs hold."""

from __future__ import annotations

from milepost.log.log import Log
from tests.simulation.written import RETENTION_MS

FLUSH_MS = 4_000


def topic_settings(policy: str) -> dict[str, object]:
    return {
        "cleanup.policy": policy,
        "segment.bytes": 300,
        "retention.ms": RETENTION_MS,
        "file.delete.delay.ms": 3_000,
        "min.cleanable.dirty.ratio": 0.01,
        "flush.ms": FLUSH_MS,
    }


def contents(log: Log) -> dict[int, tuple[bytes, bytes, int]]:
    return {
        record.offset: (record.key or b"", record.value or b"", record.timestamp)
        for segment in log.segments
        for _, batch in segment.log.batches()
        for record in batch.records()
    }
