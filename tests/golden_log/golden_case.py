"""A golden case as a log is opened on it: the topic's configuration, the clock of that day, and the files to compare."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from milepost.clock import ManualClock
from milepost.config import LogConfig
from tests.golden_fixture import Golden, kafka_version

# What the broker's own properties mean for a topic, as far as the cases set them.
BROKER_DEFAULTS = {"log.index.size.max.bytes": "segment.index.bytes", "message.max.bytes": "max.message.bytes"}
INTERNAL_TOPICS = {
    "__consumer_offsets": {"cleanup.policy": "compact", "segment.bytes": 104_857_600},
    "__transaction_state": {"cleanup.policy": "compact", "segment.bytes": 104_857_600, "compression.type": "uncompressed"},
}
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


def config_of(golden: Golden, case: str, partition: str) -> LogConfig:
    """The configuration Kafka had, and the index profile of that Kafka."""
    settings = golden.case_json(case)
    topic = partition.rpartition("-")[0]
    defaults = {ours: settings["broker"][name] for name, ours in BROKER_DEFAULTS.items() if name in settings["broker"]}
    own = INTERNAL_TOPICS.get(topic) or settings["topics"][topic]["config"]
    profile = "per-append" if kafka_version(case) == "2.4.1" else "per-batch"
    return LogConfig.parse({**defaults, "index.profile": profile, **own})


def clock_of(expected: dict[str, Any]) -> ManualClock:
    """A clock that stands at the newest timestamp of the log: producers of that time are not yet forgotten."""
    column = expected["batchColumns"].index("maxTimestamp")
    return ManualClock(max((row[column] for segment in expected["segments"] for row in segment["batches"]), default=0))


def digests(directory: Path, *suffixes: str) -> dict[str, str]:
    """Name -> SHA-256 of every file below the directory, or of those with the named suffixes."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and (not suffixes or path.suffix in suffixes)
    }
