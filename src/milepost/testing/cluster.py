"""Clusters for tests: brokers as processes of their own, on a ZooKeeper that all tests of a session share.

    def test_visits_survive(kafka_cluster):
        cluster = kafka_cluster(3)
        cluster.create_topic("visits", partitions=3, replication_factor=3)
        cluster.kill(1)
        ...                                     # cluster.bootstrap_servers, cluster.restart(1)

Each cluster has a part of ZooKeeper and a directory of its own, and is gone after the test. A dead broker is noticed after two seconds,
and internal topics are small: tests wait for nothing that they do not test.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, NoReturn

import pytest

from milepost.cluster.local.cluster import LocalCluster
from milepost.cluster.local.ports import hold
from milepost.cluster.overview import Overview, overview
from milepost.cluster.zookeeper.reader import ZooKeeperReader
from milepost.cluster.zookeeper.server import ZooKeeperServer, class_path
from milepost.errors import InvalidConfiguration
from milepost.files import Disk

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster

QUICK = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
IN_SYNC_SECONDS = 120.0
START_SECONDS = 120.0
LOOK_SECONDS = 0.1


class KafkaCluster:
    def __init__(self, directory: str, zookeeper: str, brokers: int, config: Mapping[str, object]):
        properties = {**QUICK, **{name: str(value) for name, value in config.items()}}
        self._cluster = LocalCluster.planned(directory, brokers, zookeeper=zookeeper, properties=properties)
        # A broker that is down finds its port free when it comes back, whatever else runs on this machine.
        self._ports = [hold(broker.port) for broker in self._cluster.record.brokers.values()]

    def __repr__(self) -> str:
        return f"<kafka_cluster {self.bootstrap_servers}>"

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def zookeeper(self) -> str:
        """`HOST:PORT/chroot`."""
        return self._cluster.zookeeper

    @property
    def brokers(self) -> list[int]:
        """The numbers of those that run."""
        return [broker.broker_id for broker in self._cluster.running()]

    def address(self, broker_id: int) -> str:
        return self._cluster.broker(broker_id).address

    def data(self, broker_id: int) -> str:
        """The directory of a broker's logs."""
        return f"{self._cluster.directory}/broker-{broker_id}"

    # What can happen to a broker.

    def kill(self, broker_id: int) -> None:
        """At once, as a failing machine would."""
        self._cluster.kill_broker(broker_id)

    def stop(self, broker_id: int) -> None:
        """Politely: it hands over what it leads."""
        self._cluster.stop_broker(broker_id)

    def start(self, broker_id: int) -> None:
        """One that was killed or stopped; it serves when this returns."""
        self._cluster.start_broker(broker_id)

    def restart(self, broker_id: int) -> None:
        """Stopped politely if it runs, started, and waited for until all its replicas are in sync again."""
        if self._cluster.broker(broker_id).is_running:
            self.stop(broker_id)
        self.start(broker_id)
        self.wait_in_sync([broker_id])

    def pause(self, broker_id: int) -> None:
        """It stops where it is, and does not know."""
        self._cluster.send(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        self._cluster.send(broker_id, signal.SIGCONT)

    # What ZooKeeper says.

    def overview(self) -> Overview:
        """Controller, brokers, leaders and in-sync replicas."""
        with ZooKeeperReader(self.zookeeper) as reader:
            return overview(reader)

    @property
    def controller(self) -> int | None:
        return self.overview().controller

    def wait_in_sync(self, brokers: Iterable[int] | None = None, seconds: float = IN_SYNC_SECONDS) -> None:
        """Until these brokers (all that run) are in sync wherever they have a replica."""
        wanted = self.brokers if brokers is None else list(brokers)
        deadline = time.monotonic() + seconds
        with ZooKeeperReader(self.zookeeper) as reader:
            while not all(map((now := overview(reader)).is_in_sync, wanted)):
                assert time.monotonic() < deadline, f"brokers {wanted} are not in sync after {seconds:g} seconds: {now}"
                time.sleep(LOOK_SECONDS)

    # Topics.

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int | None = None, config: Mapping[str, object] | None = None
    ) -> None:
        """Without a replication factor there is a replica on every broker, at most three."""
        from milepost.client.admin import create_topic

        factor = replication_factor or min(3, len(self._cluster.record.brokers))
        settings = {key: str(value) for key, value in (config or {}).items()}
        with self._client() as client:
            create_topic(client, name, partitions=partitions, replication_factor=factor, configs=settings)

    def _client(self) -> Cluster:
        from milepost.client.cluster import Cluster

        return Cluster(self.bootstrap_servers)

    # Its life; the fixture's business.

    def begin(self) -> None:
        self._cluster.start()

    def end(self) -> None:
        for port in self._ports:
            port.close()
        for broker in self._cluster.running():
            self._cluster.kill_broker(broker.broker_id)


class Clusters:
    """What the fixture is: called, it makes a cluster; `end` takes all of them away."""

    def __init__(self, zookeeper: ZooKeeperServer, directory: Callable[[], str]):
        self._zookeeper = zookeeper
        self._directory = directory
        self._made: list[KafkaCluster] = []

    def __call__(self, brokers: int = 3, *, config: Mapping[str, object] | None = None) -> KafkaCluster:
        """`brokers` processes with these properties, by Kafka's names. All are up when this returns."""
        chroot = f"{self._zookeeper.address}/cluster-{next(_chroots)}"
        cluster = KafkaCluster(self._directory(), chroot, brokers, config or {})
        self._made.append(cluster)
        cluster.begin()
        return cluster

    def end(self) -> None:
        """All of them, also when one does not end well."""
        with ExitStack() as stack:
            for cluster in self._made:
                stack.callback(cluster.end)


_chroots = count(1)


def zookeeper_server(directory: str) -> ZooKeeperServer:
    """A server that answers; where there cannot be one the test is skipped with the reason, or fails in continuous integration."""
    try:
        import kazoo  # noqa: F401

        class_path(Disk())
    except ImportError as missing:
        unavailable(f"kafka_cluster needs kazoo ({missing}): pip install 'milepost[zookeeper]'")
    except InvalidConfiguration as missing:
        unavailable(f"kafka_cluster: {missing}")
    with hold() as port:
        server = ZooKeeperServer(directory, int(port.getsockname()[1]))
        try:
            server.start()
            server.wait(START_SECONDS)
        except InvalidConfiguration as missing:
            unavailable(f"kafka_cluster: {missing}")
        except BaseException:
            server.stop()
            raise
    return server


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
