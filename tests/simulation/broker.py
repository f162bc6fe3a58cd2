"""A broker in the simulation: the real one, put together over a simulated process, disk, network and ZooKeeper.

A life begins with `start` and ends with `crash`; the disk goes on from one to the next. Requests that come before it is registered wait, as
they do in the socket of a real one. A broker whose start fails ends, and is started again a moment later, as whoever watches over it would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from milepost.broker.kinds.zookeeper import Connections, ZooKeeperBroker
from milepost.broker.produce.record_examiner import RecordExaminer
from milepost.broker.runtime import Runtime
from milepost.client.versions import api_of
from milepost.config.broker import BrokerConfig
from milepost.net.socket_server import ServerSettings
from milepost.protocol.connection import ClientConnection
from milepost.replica.metadata import Endpoint
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition
from tests.checker.history import Accepted, Administered, History
from tests.crash.memory_disk import MemoryDisk
from tests.simulation.connections import LISTENER, SimulatedChannel, SimulatedRequest
from tests.simulation.disk import after_crash
from tests.simulation.network import Caller, Network, SimulatedPeers
from tests.simulation.process import Process
from tests.simulation.session import SimulatedSession, SimulatedZooKeeper

DATA = "/data"
SESSION_SECONDS = 2.0
UPKEEP_SECONDS = 1.0
RESTART_SECONDS = 1.0
OF_CONTROLLERS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")


class InTurn:
    """A side thread of a simulation, which has one thread: its work is done where it is asked for."""

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None], failed: Callable[[OSError], None]) -> None:
        then(work())

    def stop(self) -> None: ...


class NoServer:
    """Frames come and go without sockets."""

    settings = ServerSettings()

    def shutdown(self) -> None: ...


class NoHousekeeping:
    """The simulation looks after logs itself, by its own clock."""

    def stop(self) -> None: ...


def runtime(config: BrokerConfig, process: Process) -> Runtime:
    examiner = RecordExaminer(InTurn(), config.milepost_produce_max_decompressed_bytes)  # type: ignore[arg-type]
    return Runtime(NoServer(), process, NoHousekeeping(), examiner)  # type: ignore[arg-type]


class Observed(NamedTuple):
    """A request of a client, whose answer says also what a client cannot see."""

    request: Any
    partition: TopicPartition


class Seen(NamedTuple):
    response: Any
    end_offset: int
    life: str


class SimulatedBroker:
    broker: ZooKeeperBroker
    session: SimulatedSession

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
        self.name = f"broker-{broker_id}"
        self.network = network
        self.world = network.world
        self.zookeeper = zookeeper
        self.disk = disk
        self.history = history
        self.settings = {
            "log.dirs": DATA,
            "broker.id": broker_id,
            "listeners": f"{LISTENER}://{self.name}:9092",
            "milepost.insecure.listener": True,
            "zookeeper.connect": "simulated",
            "zookeeper.session.timeout.ms": int(SESSION_SECONDS * 1000),
            **settings,
        }
        self.lives = 0
        self.started_at = 0.0
        self.is_up = False
        self._early: list[Callable[[], None]] = []
        self.process = Process(self.world, self.name)
        self.process.kill()
        network.servers[broker_id] = self
        if not disk.exists(DATA):
            disk.mkdir(DATA)

    # Lives.

    def start(self) -> None:
        assert not self.is_up
        self.lives += 1
        self.started_at = self.world.now
        self.is_up = True
        self.world.note(f"{self.name} starts, life {self.lives}")
        process = self.process = Process(self.world, self.name)
        self._early = []
        self._channels: dict[Caller, SimulatedChannel] = {}
        self.session = SimulatedSession(self.zookeeper, process, SESSION_SECONDS)
        peers = SimulatedPeers(self.network, process, self.broker_id)
        connections = Connections(self.session, peers, [Endpoint(LISTENER, "PLAINTEXT", self.name, 9092)])
        broker = self.broker = ZooKeeperBroker(
            self.settings,
            clock=process,
            rng=self.world.random,
            disk=self.disk,
            make_runtime=lambda config, handle, logs, channels: runtime(config, process),
            connect=lambda broker: connections,
        )
        self._note_appends()
        broker.member.on_registered = self._registered
        broker.member.on_failed = lambda error: self._ends(process, error)
        broker.member.start()
        self._upkeep()

    def _note_appends(self) -> None:
        replicas = self.broker.replicas
        appended = replicas.appended

        def noted(partition: Partition, size: int, records: int) -> None:
            self.history.accepted.append(Accepted(self.broker_id, str(partition.name), partition.leader_epoch, self.world.now))
            appended(partition, size, records)

        replicas.appended = noted  # type: ignore[method-assign]

    def _registered(self) -> None:
        self.world.note(f"{self.name} is registered with epoch {self.broker.member.broker_epoch}")
        if self._early is not None:
            self.broker.membership.start_timers()
            early, self._early = self._early, None  # type: ignore[assignment]
            for task in early:
                task()

    def _upkeep(self) -> None:
        list(self.broker.logs.maintenance.pieces())
        if self.broker.member.failure is not None and self._early is not None:
            self._ends(self.process, self.broker.member.failure)
        self.process.later(UPKEEP_SECONDS, self._upkeep)

    def _ends(self, process: Process, error: Exception) -> None:
        """A broker that cannot be a member of the cluster ends by itself; whoever watches over it starts it again."""

        def restart() -> None:
            if not self.is_up:
                self.start()

        def end() -> None:
            if process.is_alive:
                self.world.note(f"{self.name} ends: {error}")
                self.crash(is_power_failure=False)
                self.world.after(RESTART_SECONDS, restart)

        self.world.at(self.world.now, end)

    def crash(self, *, is_power_failure: bool) -> None:
        assert self.is_up
        self.is_up = False
        self.world.note(f"{self.name} {'loses power' if is_power_failure else 'is killed'}")
        self.process.kill()
        self.network.died(self.process)
        self.disk = after_crash(self.disk, self.world.random, is_power_failure=is_power_failure)
        if not self.disk.exists(DATA):
            self.disk.mkdir(DATA)

    def stop(self) -> None:
        """Politely (SIGTERM): what it leads is moved first, the logs are closed. It may be killed meanwhile."""
        broker, process = self.broker, self.process
        self.world.note(f"{self.name} is asked to stop")

        def stopped() -> None:
            if not process.is_alive:
                return
            self.world.note(f"{self.name} has stopped")
            broker.controller_channel.close()
            broker.fetchers.close()
            broker.fence.stop()
            broker.logs.shutdown()
            broker.member.close()
            self.is_up = False
            process.kill()
            self.network.died(process)
            self.disk = after_crash(self.disk, self.world.random, is_power_failure=False)

        process.run(lambda: broker.controlled_shutdown.start(stopped, broker.config))

    def partition(self, name: TopicPartition) -> Partition | None:
        return self.broker.replicas.partition(name) if self.is_up else None

    def has_log(self, name: TopicPartition) -> bool:
        return self.is_up and name in self.broker.logs.logs

    # Requests.

    def serve(self, request: Any, version: int, answer: Callable[[Any], object], caller: Caller) -> None:
        if self._early is not None:
            self._early.append(lambda: self.serve(request, version, answer, caller))
        elif isinstance(request, Observed):
            self._handle(request.request, version, lambda response: answer(self._seen(request, response)), caller)
        else:
            self._handle(request, version, answer, caller)

    def _seen(self, observed: Observed, response: Any) -> Seen:
        partition = self.partition(observed.partition)
        return Seen(response, partition.log.end_offset if partition else -1, f"{self.name}.{self.lives}")

    def _handle(self, request: Any, version: int, answer: Callable[[Any], object], caller: Caller) -> None:
        api = api_of(request)
        name = api.name
        connection = ClientConnection(caller.client_id)
        _, frame = connection.send(api.key, version, request)

        def answered(response: bytes) -> None:
            decoded = connection.receive(response)[0].body
            if name in OF_CONTROLLERS:
                self._told(name, request, decoded)
            answer(decoded)

        channel = self._channels.setdefault(caller, SimulatedChannel(*caller))
        SimulatedRequest(channel, frame, answered).hand_on(self.broker.dispatcher.handle)

    def _told(self, name: str, request: Any, response: Any) -> None:
        self.world.note(f"{self.name} is told by {request.controller_id}: {told(name, request)} -> {response.error_code}")
        if response.error_code == 0:
            self.history.administered.append(Administered(request.controller_id, request.controller_epoch, self.world.now))


def told(name: str, request: Any) -> str:
    states = [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    states += [(state.topic_name, state) for state in getattr(request, "ungrouped_partition_states", ())]
    partitions = []
    for topic, state in states:
        text = f"{topic}-{state.partition_index} e{state.leader_epoch}"
        if name != "StopReplica":
            text += f" L{state.leader} isr{list(state.isr)}"
        partitions.append(text)
    return f"{name} ce{request.controller_epoch} be{request.broker_epoch} {', '.join(partitions)}"
