"""A broker in the simulation: the parts that a real one has, with a simulated process, disk, network and ZooKeeper around them.

A life begins with `start` and ends with `crash`; the disk goes on from one to the next. What a real broker does with a socket it does here
in `serve`: find out what was asked, let the part answer that is for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from milepost.cluster.protocol_versions import LATEST
from milepost.config.broker import BrokerConfig
from milepost.log.manager import LogManager
from milepost.protocol.messages import UpdateMetadataResponse
from milepost.replica.fetcher import FetcherSettings
from milepost.replica.fetchers import Fetchers
from milepost.replica.manager import ReplicaManager
from milepost.replica.metadata import BrokerInfo, Endpoint
from milepost.replica.metadata_cache import MetadataCache
from milepost.replica.roles import Roles
from tests.checker.history import Administered, History
from tests.crash.memory_disk import MemoryDisk
from tests.simulation.disk import after_crash
from tests.simulation.isr import AlterPartitionSender, answer_alter_partition
from tests.simulation.membership import Membership
from tests.simulation.network import Network, SimulatedPeers
from tests.simulation.process import Process
from tests.simulation.serving import Serving
from tests.simulation.session import SimulatedSession, SimulatedZooKeeper

logger = logging.getLogger("milepost.simulation")

DATA = "/data"
LISTENER = "PLAINTEXT"
SESSION_SECONDS = 2.0
MAX_LAG_MS = 2000
UPKEEP_SECONDS = 1.0
VERSIONS = LATEST


class SimulatedBroker:
    process: Process

    def __init__(
        self,
        broker_id: int,
        network: Network,
        zookeeper: SimulatedZooKeeper,
        disk: MemoryDisk,
        history: History,
        settings: dict[str, Any],
    ):
        self.broker_id = broker_id
        self.network = network
        self.world = network.world
        self.zookeeper = zookeeper
        self.disk = disk
        self.history = history
        self.config = BrokerConfig.parse({"log.dirs": DATA, "broker.id": broker_id, **settings})
        self.lives = 0
        self.is_up = False
        self.process = Process(self.world, self.name)
        self.process.kill()
        network.servers[broker_id] = self
        if not disk.exists(DATA):
            disk.mkdir(DATA)

    @property
    def name(self) -> str:
        return f"broker-{self.broker_id}"

    @property
    def info(self) -> BrokerInfo:
        return BrokerInfo(self.broker_id, -1, (Endpoint(LISTENER, "PLAINTEXT", self.name, 9092),))

    # Lives.

    def start(self) -> None:
        assert not self.is_up
        self.lives += 1
        self.is_up = True
        self.world.note(f"{self.name} starts, life {self.lives}")
        process = self.process = Process(self.world, self.name)
        self.peers = SimulatedPeers(self.network, process)
        self.metadata = MetadataCache()
        self.logs = LogManager(self.config, disk=self.disk, clock=process, rng=self.world.random)
        self.logs.startup()
        self.replicas = ReplicaManager(self.logs, process, self.broker_id)
        self.session = SimulatedSession(self.zookeeper, process, SESSION_SECONDS)
        self.membership = Membership(self, VERSIONS)
        self.changer = AlterPartitionSender(self)
        self.fetchers = Fetchers(
            FetcherSettings(self.broker_id, fetch_version=VERSIONS.fetch),
            self.peers,
            process,
            process,
            lambda: self.metadata.brokers,
            lambda: self.membership.epoch,
            lambda name, size: self.replicas.purgatory.check(name),
            lambda name, error: self.world.note(f"{self.name}: {name} failed: {error}"),
        )
        self.roles = Roles(self.replicas, self.fetchers, self.changer, process, lambda: MAX_LAG_MS, lambda: self.membership.epoch)
        self.serving = Serving(self)
        self.session.start(self.membership)
        self._check_lag()
        self._upkeep()

    def crash(self, *, is_power_failure: bool) -> None:
        assert self.is_up
        self.is_up = False
        self.world.note(f"{self.name} {'loses power' if is_power_failure else 'is killed'}")
        self.process.kill()
        self.network.died(self.process)
        self.disk = after_crash(self.disk, self.world.random, is_power_failure=is_power_failure)
        if not self.disk.exists(DATA):
            self.disk.mkdir(DATA)

    def _check_lag(self) -> None:
        self.roles.check_lag()
        self.process.later(MAX_LAG_MS / 2000, self._check_lag)

    def _upkeep(self) -> None:
        self.logs.tick()
        self.process.later(UPKEEP_SECONDS, self._upkeep)

    # Requests.

    def serve(self, request: Any, version: int, answer: Callable[[Any], object], caller: str) -> None:
        kind = type(request).__name__
        if kind in ("LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaRequest"):
            answer(self._obey(kind, request, version))
        elif kind == "AlterPartitionRequest":
            answer_alter_partition(self, request, version, answer)
        else:
            self.serving.serve(kind, request, answer)

    def _obey(self, kind: str, request: Any, version: int) -> Any:
        """What a controller says."""
        if kind == "LeaderAndIsrRequest":
            response: Any = self.roles.lead_and_follow(request, version)
        elif kind == "StopReplicaRequest":
            response = self.roles.stop(request, version)
        else:
            response = UpdateMetadataResponse(error_code=self.roles.refusal(request.controller_epoch, request.broker_epoch))
            if response.error_code == 0:
                self.metadata.apply(request)
                self.fetchers.leaders_changed()
        self.world.note(f"{self.name} is told by {request.controller_id}: {told(kind, request)} -> {response.error_code}")
        if response.error_code == 0:
            self.history.administered.append(Administered(request.controller_id, request.controller_epoch, self.world.now))
        return response


def told(kind: str, request: Any) -> str:
    partitions = []
    for topic in request.topic_states:
        for state in topic.partition_states:
            text = f"{topic.topic_name}-{state.partition_index} e{state.leader_epoch}"
            if kind != "StopReplicaRequest":
                text += f" L{state.leader} isr{list(state.isr)}"
            partitions.append(text)
    return f"{kind.removesuffix('Request')} ce{request.controller_epoch} be{request.broker_epoch} {', '.join(partitions)}"
