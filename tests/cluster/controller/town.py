"""A controller with brokers that do as they are told: ZooKeeper is the model, requests are noted and answered with success."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.controller_parts import ControllerSettings
from milepost.cluster.controller.election_times import ElectionTimes
from milepost.cluster.controller.isr_changes import Proposal
from milepost.cluster.controller_election import Elected, elect
from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Operation, Result, WatchEvent
from milepost.cluster.zookeeper.session import Runner
from milepost.errors import BrokerUnavailable
from milepost.protocol.messages import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from milepost.replica.metadata import BrokerInfo, Endpoint
from milepost.topic_partition import TopicPartition
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper

ANSWERS = {
    "LeaderAndIsrRequest": lambda request: LeaderAndIsrResponse(),
    "UpdateMetadataRequest": lambda request: UpdateMetadataResponse(),
    "StopReplicaRequest": lambda request: StopReplicaResponse(),
}


class Town:
    """`told` lists (broker id, request) in the order of sending."""

    def __init__(self, version: str = "3.9", **settings: Any):
        self.turns = Turns()
        self.server = ModelZooKeeper()
        self.versions = protocol_versions(version)
        self.settings = settings
        self.told: list[tuple[int, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = dict(ANSWERS)
        self.silent: set[int] = set()
        self.sessions: dict[int, ModelSession] = {}
        self.controllers: dict[int, Controller] = {}
        self.election_times = ElectionTimes(self.turns.monotonic)
        self.errors: list[Exception] = []
        self.ids = count()
        admin = ModelSession(self.server, self.turns)
        admin.session_id = -99
        self.admin = admin
        made = set()
        for path in (*znodes.MADE_AT_START, "/cluster"):
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts) + 1):
                above = "/" + "/".join(parts[:depth])
                if above not in made:
                    made.add(above)
                    self.write(Create(above))

    # ZooKeeper.

    def write(self, *operations: Operation) -> list[Result]:
        results = [self.server.carry_out(self.admin, operation) for operation in operations]
        self.turns.settle()
        return results

    def create_topic(self, name: str, partitions: dict[int, tuple[int, ...]], configs: dict[str, str] | None = None) -> None:
        node = znodes.TopicNode(
            {number: znodes.Assignment(replicas) for number, replicas in partitions.items()}, self.topic_id(name)
        )
        self.write(
            Create(znodes.config_path("topics", name), znodes.config(configs or {})),
            Create(znodes.topic_path(name), znodes.topic(node, self.versions.topic_znode)),
        )

    def topic_id(self, name: str) -> str | None:
        return name.encode().ljust(16, b"A").hex()[:22] if self.versions.has_topic_ids else None

    def state(self, topic: str, partition: int) -> tuple[int, int, list[int], int]:
        """(leader, leader epoch, ISR, partition epoch) in ZooKeeper."""
        node = self.server.nodes[znodes.state_path(topic, partition)]
        state = znodes.parse_state(node.data, node.version)
        assert state is not None
        return state.leader, state.leader_epoch, list(state.isr), state.partition_epoch

    # Brokers.

    def start_broker(self, broker_id: int) -> None:
        session = ModelSession(self.server, self.turns)
        self.sessions[broker_id] = session
        session.start(Member(self, broker_id))
        self.turns.settle()

    def kill_broker(self, broker_id: int) -> None:
        """Its session ends; nobody is told anything by it any more."""
        controller = self.controllers.pop(broker_id, None)
        if controller is not None:
            controller.end()
        self.sessions.pop(broker_id).close()
        self.turns.settle()

    @property
    def controller(self) -> Controller:
        (controller,) = (each for each in self.controllers.values() if each.is_active)
        return controller

    def ask(self, method: Callable[..., None], *arguments: Any) -> Any:
        answers: list[Any] = []
        method(*arguments, lambda *answer: answers.append(answer[0] if len(answer) == 1 else answer))
        self.turns.settle()
        assert len(answers) == 1
        return answers[0]

    # Peers.

    def send(
        self, broker: BrokerInfo, request: Any, version: int | None, on_answer: Any, on_failure: Any, **options: Any
    ) -> None:
        if broker.broker_id in self.silent:
            self.turns.post(lambda: on_failure(BrokerUnavailable("nobody answers")))
            return
        self.told.append((broker.broker_id, request))
        response = self.answers[type(request).__name__](request)
        self.turns.post(lambda: on_answer(response))

    def forget(self, broker_id: int) -> None:
        pass

    def take_told(self) -> list[str]:
        """What was told since the last time, as text."""
        told, self.told = self.told, []
        return [f"{broker_id} {told_as_text(request)}" for broker_id, request in told]


class Member:
    """One broker's life with ZooKeeper: registers, stands for election, is controller if it wins."""

    def __init__(self, town: Town, broker_id: int):
        self.town = town
        self.broker_id = broker_id
        self.runner = Runner(town.sessions[broker_id], town.errors.append)
        self.term: Any = None

    def on_connected(self) -> None:
        endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9090 + self.broker_id),)
        node = znodes.BrokerNode(endpoints, f"r{self.broker_id}")
        data = znodes.broker(node, 0, has_features=self.town.versions.has_features)

        def register() -> Any:
            yield [Create(znodes.broker_path(self.broker_id), data, ephemeral=True)]

        self.runner.run(register())
        self.stand()

    def stand(self) -> None:
        self.runner.run(elect(self.broker_id, 0, knows_kraft=self.town.versions.knows_kraft), self.elected)

    def elected(self, outcome: Elected) -> None:
        town = self.town
        if outcome.term is not None:
            settings = ControllerSettings(self.broker_id, town.versions, "PLAINTEXT", **town.settings)
            controller = Controller(
                outcome.term,
                settings,
                town.sessions[self.broker_id],
                town,
                town.turns,
                lambda: f"id{next(town.ids):020d}",
                town.election_times,
                town.errors.append,
            )
            town.controllers[self.broker_id] = controller
            controller.start()
        elif outcome.controller_id != self.broker_id and self.broker_id in town.controllers:
            town.controllers.pop(self.broker_id).end()

    def on_expired(self) -> None:
        self.runner.clear()
        controller = self.town.controllers.pop(self.broker_id, None)
        if controller is not None:
            controller.end()

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == znodes.CONTROLLER:
            self.stand()
        elif self.broker_id in self.town.controllers:
            self.town.controllers[self.broker_id].on_watch(event)


def told_as_text(request: Any) -> str:
    """`LeaderAndIsr t:0(L1 e0 isr[1, 2] pe0 new)`, in the manner of the recorded orders."""
    kind = type(request).__name__.removesuffix("Request")
    topics = []
    for topic in request.topic_states:
        partitions = []
        for state in topic.partition_states:
            if kind == "StopReplica":
                partitions.append(f"{state.partition_index}(e{state.leader_epoch}{' delete' if state.delete_partition else ''})")
                continue
            epoch = f"pe{state.partition_epoch}" if kind == "LeaderAndIsr" else f"zk{state.zk_version}"
            new = " new" if kind == "LeaderAndIsr" and state.is_new else ""
            partitions.append(f"{state.partition_index}(L{state.leader} e{state.leader_epoch} isr{list(state.isr)} {epoch}{new})")
        topics.append(f"{topic.topic_name}:{','.join(sorted(partitions))}")
    live = f" live {sorted(each.id for each in request.live_brokers)}" if kind == "UpdateMetadata" else ""
    return f"{kind} {' '.join(sorted(topics))}{live}".replace("  ", " ").strip()


def alter(town: Town, leader: int, isr: tuple[int, ...], topic: str = "t") -> tuple[int, object]:
    """The leader asks for other in-sync replicas."""
    _, leader_epoch, _, partition_epoch = town.state(topic, 0)
    broker_epoch = town.controller.context.brokers[leader].epoch
    partition = TopicPartition(topic, 0)
    error, verdicts = town.ask(
        town.controller.alter_partition, leader, broker_epoch, {partition: Proposal(leader_epoch, isr, partition_epoch)}, 3
    )
    assert error == 0
    return verdicts[partition]
