"""A broker of its own for every test, on a free port over a temporary directory, and clients for it.

A handler that lets an exception through fails the test that made it do so: the broker logs it with its traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.files import Disk
from milepost.protocol.messages import (
    MetadataRequest,
)
from tests.broker.wire import Wire

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


class Brokers:
    """Those of one test. Without "log.dirs" all have the same directory: stop one before the next starts."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._lives: list[Life[AloneBroker]] = []

    def start(self, settings: dict[str, str] | None = None, disk: Disk | None = None) -> Broker:
        life = Life(AloneBroker({"log.dirs": str(self._directory), **SETTINGS, **(settings or {})}, disk=disk))
        self._lives.append(life)
        return life.__enter__()

    def stop(self, broker: Broker) -> None:
        (life,) = [life for life in self._lives if life.broker is broker]
        self._lives.remove(life)
        life.__exit__(None, None, None)

    def stop_all(self) -> None:
        while self._lives:
            self.stop(self._lives[-1].broker)


@pytest.fixture
def brokers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Brokers]:
    with caplog.at_level(logging.ERROR, "milepost"):
        brokers = Brokers(tmp_path / "data")
        try:
            yield brokers
        finally:
            brokers.stop_all()
    failures = [record for record in caplog.get_records("call") if record.exc_info]
    assert not failures, f"{len(failures)} exceptions escaped, the first: {failures[0].getMessage()}: {failures[0].exc_info}"


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    return brokers.start()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def topic(wire) -> str:
    """Made by asking for it."""
    answer = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
    assert [(found.name, found.error_code, len(found.partitions)) for found in answer.topics] == [("t", 0, 1)]
    return "t"
