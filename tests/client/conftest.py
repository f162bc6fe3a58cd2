"""A broker for the tests of one module, a cluster to ask it, and a cluster that never really waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.retrying import Retries
from milepost.protocol.apis import BY_NAME
from tests.client.fake_broker import FakeBroker
from tests.waiting import PATIENCE

# Below these there is no way to ask for no topics (Metadata), or for all of them (OffsetFetch); no Kafka in use is that old.
FLOORS = {"Metadata": 1, "OffsetFetch": 2}


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
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, timeout=PATIENCE) as cluster:
        yield cluster


@pytest.fixture(params=["newest", "oldest"])
def any_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test twice: in the newest versions both sides know, and in the oldest, as against a Kafka of years ago."""
    if request.param == "oldest":

        def oldest(self: Connection, api: object, highest: int | None = None) -> int:
            name = api if isinstance(api, str) else api.name  # type: ignore[attr-defined]
            return max(self.versions[BY_NAME[name].key][0], BY_NAME[name].served[0], FLOORS.get(name, 0))

        monkeypatch.setattr(Connection, "version_of", oldest)
    return str(request.param)


class Pauses(list[float]):
    """Where the time goes when nobody sleeps."""


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def cluster_of(pauses: Pauses):
    """`cluster_of(*fakes)`: a cluster that knows these brokers as bootstrap servers, and notes its pauses instead of making them."""
    made: list[Cluster] = []

    def make(*brokers: FakeBroker, timeout: float = PATIENCE, **options: object) -> Cluster:
        retries = Retries(attempts=10, timeout=10 * PATIENCE, sleep=pauses.append)
        cluster = Cluster([str(broker.address) for broker in brokers], timeout=timeout, retries=retries, **options)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()
