"""One broker of a cluster of three under attack, over the listener that brokers use: the controller, which serves whatever brokers send.

    proven      every connection has proven to be a broker's: the controller's itself, or another broker's (`SPEAKS_AS_CONTROLLER`)
    unproven    it has not, and says the same

Half of the topics are led by the broker under attack, and the other half is followed. Ids and epochs in the requests are the right ones,
so what is proven gets as far as it can. `renew` starts another cluster; the ZooKeeper server stays. A stranger is refused or asks what
any client does, so it goes on with the cluster it has.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path

from milepost.broker.inter_broker import BROKERS_SINCE, KEYS, SERVED_IN_A_CLUSTER
from milepost.protocol.apis import BY_KEY, BY_NAME, Api
from milepost.protocol.messages import CreateTopicsRequest, MetadataRequest
from tests.broker.wire import Wire
from tests.cluster.asking import until, zookeeper_client
from tests.cluster.processes import ClusterProcesses
from tests.cluster.proving import prove, secret_of
from tests.hostile.attack.target import Process, connected
from tests.hostile.attack.world import World

CLIENTS_SAY_IT_TOO = ("Fetch", "ListOffsets", "OffsetForLeaderEpoch", "WriteTxnMarkers")
"""Requests of clients in which a broker may say more."""
SPEAKS_AS_CONTROLLER = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
PROOF = ("SaslHandshake", "SaslAuthenticate")
BROKERS, REPLICAS, TOPICS, WIDEST = 3, 2, 40, 60


def between_brokers(*, newest_only: bool, proven: bool) -> Iterator[tuple[Api, int]]:
    """Every API and version that brokers send each other. Who has proven to be a broker does not do so again."""
    keys = {*KEYS, *SERVED_IN_A_CLUSTER, *(BY_NAME[name].key for name in CLIENTS_SAY_IT_TOO)}
    for key in sorted(keys):
        api = BY_KEY[key]
        first, last = api.served
        first = max(first, BROKERS_SINCE.get(key, first))
        if not (proven and api.name in PROOF):
            yield from ((api, version) for version in range(last if newest_only else first, last + 1))


class ClusterTarget:
    def __init__(self, directory: Path, zookeeper: str, *, proven: bool):
        self._directory = directory
        self._zookeeper = zookeeper
        self._is_proven = proven
        self._started = 0
        self._cluster: ClusterProcesses | None = None
        self._worlds = {True: World(), False: World()}
        """As the controller and as another broker know it."""

    def renew(self) -> None:
        if self._cluster is not None and self.is_alive and not self._is_proven:
            return
        self.close()
        self._started += 1
        place = self._directory / str(self._started)
        cluster = self._cluster = ClusterProcesses(place, f"{self._zookeeper}/{self._directory.name}-{place.name}", BROKERS)
        for broker in cluster.brokers.values():
            broker.start(wait=False)
        for broker in cluster.brokers.values():
            broker.wait()
        self._target = self._controller(cluster)
        self._other = next(number for number in cluster.brokers if number != self._target)
        self.address = cluster.brokers[self._target].address
        running = cluster.brokers[self._target].process
        assert running is not None
        self.process = Process(running.pid)
        self._secret = secret_of(cluster.zookeeper)
        with zookeeper_client(cluster.zookeeper) as client:
            controller_epoch = int(client.get("/controller_epoch")[0])
            epochs = {number: client.exists(f"/brokers/ids/{number}").czxid for number in cluster.brokers}
        topics = self._made()
        for is_controller, world in self._worlds.items():
            speaker = self._target if is_controller else self._other
            world.topics, world.widest = topics, WIDEST
            world.groups = [f"group-{number}" for number in range(20)]
            world.transactions = {f"transaction-{number}": (number, 0) for number in range(20)}
            world.numbers = {
                "controller_id": repeat(self._target),
                "controller_epoch": repeat(controller_epoch),
                "broker_epoch": repeat(epochs[speaker]),
                "replica_epoch": repeat(epochs[self._other]),
                "broker_id": repeat(speaker),
                "replica_id": repeat(self._other),
                "leader": repeat(self._target),
                "isr": repeat(self._target),
                "replicas": repeat(self._target),
                # What is told again is not new.
                "leader_epoch": count(1) if is_controller else repeat(0),
            }

    def _controller(self, cluster: ClusterProcesses) -> int:
        """As soon as it has told everybody of everybody."""
        found: set[int] = set()
        for broker in cluster.brokers.values():
            with Wire(broker.address) as wire:

                def hears(wire: Wire = wire) -> bool:
                    answer = wire.ask(MetadataRequest(topics=[]), 12)
                    found.add(answer.controller_id)
                    return len(answer.brokers) == BROKERS and answer.controller_id >= 0

                until(hears, f"broker {broker.broker_id} has heard of all")
        (controller,) = found - {-1}
        return int(controller)

    def _made(self) -> dict[str, bytes]:
        names = ["wide", *(f"topic-{number}" for number in range(TOPICS))]
        topic = CreateTopicsRequest.Topic
        wanted = []
        for place, name in enumerate(names):
            replicas = [self._target, self._other] if place % 2 == 0 else [self._other, self._target]
            assignments = [
                topic.Assignment(partition_index=number, broker_ids=replicas) for number in range(WIDEST if name == "wide" else 1)
            ]
            wanted.append(topic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments))
        asked = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names], allow_auto_topic_creation=False)
        with Wire(self.address) as wire:
            created = wire.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 7)
            assert {each.error_code for each in created.topics} == {0}
            until(
                lambda: not any(part.error_code for each in wire.ask(asked, 12).topics for part in (each.partitions or [None])),
                "the topics are led",
            )
            return {each.name: each.topic_id for each in wire.ask(asked, 12).topics}

    def world_of(self, api: Api) -> World:
        return self._worlds[api.name in SPEAKS_AS_CONTROLLER]

    def connect(self, api: Api) -> socket.socket:
        if not self._is_proven:
            return connected(self.address)
        wire = Wire(self.address, "attack")
        prove(wire, self._secret, self._target if api.name in SPEAKS_AS_CONTROLLER else self._other, self._target)
        return wire.socket

    @property
    def is_alive(self) -> bool:
        assert self._cluster is not None
        return self._cluster.brokers[self._target].is_running

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.__exit__()
            self._cluster = None
            shutil.rmtree(self._directory / str(self._started), ignore_errors=True)
