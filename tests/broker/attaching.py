"""A broker over attached directories for tests: whatever the test does, not a byte, a name or a time of them may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from milepost.broker.broker import Broker
from milepost.broker.kinds.attached import AttachedBroker
from milepost.broker.lifecycle import Life
from tests.golden_log.golden_case import digests

SECONDS = 60
FREE_PORT = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def fingerprint(*directories: Path) -> dict[str, Any]:
    """Every byte, name and time below the directories, and of the directories themselves."""
    found: dict[str, Any] = {}
    for directory in directories:
        found[str(directory)] = digests(directory)
        for path in [directory, *directory.rglob("*")]:
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)
    return found


@contextmanager
def attached(*directories: Path, settings: dict[str, str] | None = None) -> Iterator[AttachedBroker]:
    before = fingerprint(*directories)
    with Life(AttachedBroker(map(str, directories), {**FREE_PORT, **(settings or {})})) as broker:
        yield broker
    after = fingerprint(*directories)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not changed, f"changed while attached: {sorted(changed)}"


def consumer_of(broker: Broker, **settings: Any) -> Consumer:
    """librdkafka's; it stops at nothing it could pass over in silence."""
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "nobody",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 20,
        "check.crcs": True,
        "log_level": 0,
    }
    return Consumer({**given, **{name.replace("_", "."): value for name, value in settings.items()}})
