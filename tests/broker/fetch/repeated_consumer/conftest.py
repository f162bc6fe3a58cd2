"""A broker with a topic, and a consumer that repeats itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from tests.broker.fetch.readers import PARTITIONS, Reader
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire


@pytest.fixture
def broker(brokers) -> Broker:
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", PARTITIONS))
    return broker


@pytest.fixture
def connection(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture(params=["session", "sessionless"])
def reader(request: pytest.FixtureRequest, connection) -> Reader:
    return Reader(connection, in_session=request.param == "session")
