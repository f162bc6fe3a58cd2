"""The pytest plug-in of milepost. Who has it installed has these fixtures, and pays nothing while none is asked for:

    kafka_broker          a running broker for the whole session (each process of pytest-xdist has its own); `bootstrap_servers`
    kafka_topic           the name of a new topic on it, deleted after the test
    kafka_broker_config   the broker's properties by Kafka's names, from the ini option; a project may define its own fixture of
                          this name, with scope="session"
    kafka_cluster         `kafka_cluster(3)`: a cluster of brokers as processes, for one test; they can be killed and restarted

    [pytest]
    kafka_broker_config =
        num.partitions=3

    @pytest.mark.kafka_topic(partitions=5, config={"cleanup.policy": "compact"})
    def test_visits(kafka_broker, kafka_topic): ...

Loading this module loads nothing of milepost: pytest does so at the start of every run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

import milepost

if TYPE_CHECKING:
    from milepost.broker.embedded import EmbeddedBroker
    from milepost.cluster.zookeeper.server import ZooKeeperServer
    from milepost.testing.cluster import Clusters

INI_OPTION = "kafka_broker_config"
MARKER = "kafka_topic"
UNKNOWN_TOPIC = 3
LONGEST_PREFIX = 200
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(INI_OPTION, "properties of the fixture kafka_broker by Kafka's names, key=value, one a line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(partitions=None, config=None): how the fixture kafka_topic makes its topic (milepost)"
    )


@pytest.fixture(scope="session")
def kafka_broker_config(pytestconfig: pytest.Config) -> dict[str, str]:
    """The properties of `kafka_broker`, from the ini option of this name."""
    settings = {}
    for line in pytestconfig.getini(INI_OPTION):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"{INI_OPTION}: {line!r} is no key=value, such as num.partitions=3")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def kafka_broker(kafka_broker_config: Mapping[str, object]) -> Iterator[EmbeddedBroker]:
    """A Kafka broker in this process, on a free port, over a temporary directory: `kafka_broker.bootstrap_servers`."""
    try:
        broker = milepost.Broker(config=kafka_broker_config).start()
    except milepost.MilepostError as error:
        raise pytest.UsageError(f"kafka_broker: {error}") from None
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def kafka_topic(kafka_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that only this test has; the mark kafka_topic says how many partitions and which settings it has."""
    wanted = _marked(request.node)
    name = f"{re.sub(r'[^a-zA-Z0-9._-]', '-', request.node.name)[:LONGEST_PREFIX]}-{next(_numbers)}"
    try:
        kafka_broker.create_topic(name, **wanted)
    except milepost.MilepostError as error:
        raise pytest.UsageError(f"{MARKER}: {error}") from None
    yield name
    try:
        kafka_broker.delete_topic(name)
    except milepost.errors.RequestFailed as error:
        # The test may have deleted it itself.
        if error.code != UNKNOWN_TOPIC:
            raise


@pytest.fixture(scope="session")
def kafka_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """The ZooKeeper of all clusters of a session, from PySpark's jars: `kafka_zookeeper.address`."""
    from milepost.testing.cluster import zookeeper_server

    server = zookeeper_server(str(tmp_path_factory.mktemp("zookeeper")))
    yield server
    server.stop()


@pytest.fixture
def kafka_cluster(kafka_zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Makes clusters: `kafka_cluster(3)` starts three brokers as processes, which are gone after the test."""
    from milepost.testing.cluster import Clusters

    clusters = Clusters(kafka_zookeeper, lambda: str(tmp_path_factory.mktemp("cluster")))
    yield clusters
    clusters.end()


def _marked(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return {}
    unknown = marker.kwargs.keys() - {"partitions", "config"}
    if marker.args or unknown:
        raise pytest.UsageError(f"{MARKER} takes partitions=N and config={{…}} by name; it was given {marker.args or unknown}")
    return dict(marker.kwargs)
