"""A broker for the commands that talk to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from tests.cli.running import Ran, run
from tests.ports import held_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {
        "log.dirs": str(tmp_path_factory.mktemp("data")),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
    }
    with Life(AloneBroker(settings)) as broker:
        yield broker


@pytest.fixture
def ask(broker: Broker) -> Callable[..., Ran]:
    """`ask("topics", "list")`: run a command against the broker."""

    def invoke(*arguments: object, stdin: bytes | None = None) -> Ran:
        return run(*arguments, "--bootstrap-server", broker.bootstrap_servers, stdin=stdin)

    return invoke


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens."""
    with held_port() as port:
        yield f"127.0.0.1:{port}"
