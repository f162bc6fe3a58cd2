"""A broker is complete when it exists: its life adds no part to it, and one that cannot be made leaves nothing open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.kinds.attached import AttachedBroker
from milepost.broker.lifecycle import Life
from milepost.errors import DirectoryLocked, PortUnavailable
from milepost.protocol.messages import CreateTopicsRequest, FindCoordinatorRequest, MetadataRequest
from tests.broker.conftest import SETTINGS
from tests.broker.wire import Wire
from tests.golden_fixture import Golden
from tests.ports import held_port


def alone(golden: Golden, directory: Path) -> Broker:
    return AloneBroker({"log.dirs": str(directory), **SETTINGS})


def attached(golden: Golden, directory: Path) -> Broker:
    return AttachedBroker([str(golden("page_visits/kafka-4.3.0", directory) / "logdir")], SETTINGS)


@pytest.mark.parametrize("make", [alone, attached])
def test_life_of_a_broker_adds_no_part_to_it(golden, tmp_path, make: Callable[[Golden, Path], Broker]):
    broker = make(golden, tmp_path)
    parts = dict(vars(broker))
    with Life(broker), Wire(broker.bootstrap_servers) as wire:
        wire.ask(
            CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name="visits", num_partitions=1, replication_factor=1)]), 7
        )
        wire.ask(FindCoordinatorRequest(key="readers"), 1)
        wire.ask(MetadataRequest(topics=None), 9)
    assert vars(broker) == parts


def test_broker_whose_directory_is_taken_gives_its_port_back(tmp_path):
    with held_port() as port:
        settings = {**SETTINGS, "log.dirs": str(tmp_path), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with Life(AloneBroker({**settings, **SETTINGS})), pytest.raises(DirectoryLocked):
            AloneBroker(settings)
        with Life(AloneBroker(settings)) as broker:
            assert broker.bootstrap_servers == f"127.0.0.1:{port}"


def test_broker_whose_port_is_taken_touches_no_directory(tmp_path):
    with Life(AloneBroker({**SETTINGS, "log.dirs": str(tmp_path / "first")})) as first, pytest.raises(PortUnavailable):
        AloneBroker({"listeners": f"PLAINTEXT://{first.bootstrap_servers}", "log.dirs": str(tmp_path / "second")})
    assert not (tmp_path / "second").exists()
