"""What a controller failover and a broker's death cost in a large cluster: requests, ZooKeeper operations, time.

    python -m tests.simulation.sizing [--brokers 100] [--partitions 100000]

The controller is the real one, over the model of ZooKeeper; the brokers are stand-ins that answer when a real one would have. Time has
three parts: what the controller computes is measured, what ZooKeeper and the brokers need is measured once on the real ones and then
charged for each operation and each partition, and messages take a fraction of a millisecond. What is not charged: bandwidth (the bytes
are counted), and the time until ZooKeeper has noticed a death, which is the session timeout.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.controller_parts import ControllerSettings
from milepost.cluster.controller_election import Elected, elect
from milepost.cluster.protocol_versions import LATEST
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Operation, Result, WatchEvent
from milepost.cluster.zookeeper.session import Runner
from milepost.log.directory.partition_metadata import topic_id_text
from milepost.protocol import generated
from milepost.protocol.apis import BY_NAME
from milepost.protocol.messages import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from milepost.replica.metadata import BrokerInfo, Endpoint
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.rates import Rates, measure
from tests.simulation.session import ServerSession, SimulatedSession, SimulatedZooKeeper
from tests.simulation.world import World

REPLICAS = 3
PARTITIONS_PER_TOPIC = 100
SESSION_SECONDS = 18.0
ANSWERS = {"LeaderAndIsr": LeaderAndIsrResponse, "UpdateMetadata": UpdateMetadataResponse, "StopReplica": StopReplicaResponse}


@dataclass
class Bill:
    """What one event cost."""

    name: str
    seconds: float = 0.0
    computed: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


class Town(SimulatedZooKeeper):
    """ZooKeeper, charging for what is asked of it, and all the brokers behind `send`."""

    def __init__(self, world: World, rates: Rates):
        super().__init__(Network(world))
        self.rates = rates
        self.bill = Bill("")
        self.elsewhere = 0.0
        self.unanswered = 0
        self._free_at: dict[int, float] = {}
        carry_out = self.model.carry_out

        def charged(session: Any, operation: Operation) -> Result:
            began = time.perf_counter()
            self.bill.operations[type(operation).__name__] += 1
            result = carry_out(session, operation)
            self.elsewhere += time.perf_counter() - began
            return result

        self.model.carry_out = charged  # type: ignore[method-assign]

    def seconds_for(self, operations: Sequence[Operation]) -> float:
        return sum(
            self.rates.read if type(each).__name__ in ("Get", "Exists", "Children") else self.rates.write for each in operations
        )

    # Peers.

    def send(self, broker: BrokerInfo, request: Any, version: int, on_answer: Any, on_failure: Any, **options: Any) -> None:
        name = type(request).__name__.removesuffix("Request")
        pieces: list[bytes] = []
        generated.request_encoder(BY_NAME[name].key, version)(request, pieces.append)
        count = sum(len(topic.partition_states) for topic in request.topic_states)
        self.bill.requests[name] += 1
        self.bill.partitions[name] += count
        self.bill.bytes += sum(map(len, pieces))
        self.unanswered += 1
        each = self.rates.update if name == "UpdateMetadata" else self.rates.lead
        done = max(self.world.now, self._free_at.get(broker.broker_id, 0.0)) + self.network.delay() + count * each
        self._free_at[broker.broker_id] = done

        def answered() -> None:
            self.unanswered -= 1
            on_answer(ANSWERS[name]())

        self.world.at(done + self.network.delay(), answered)

    def forget(self, broker_id: int) -> None: ...


class ChargedSession(SimulatedSession):
    """Answers come when ZooKeeper has had the time for them, one after the other."""

    server: Town
    free_at = 0.0

    def _carry_out(self, session: ServerSession, batch: Any, part: Sequence[Operation], requests: Any) -> None:
        carry_out = super()._carry_out
        self.free_at = max(self.free_at, self.server.world.now) + self.server.seconds_for(part)
        self.server.world.at(self.free_at, lambda: carry_out(session, batch, part, requests))


class Candidate:
    """A broker that may become controller. Its registration is in another session, as those of all brokers here."""

    def __init__(self, town: Town, broker_id: int):
        self.town = town
        self.broker_id = broker_id
        self.process = Process(town.world, f"broker-{broker_id}")
        self.session = ChargedSession(town, self.process, SESSION_SECONDS)
        self.runner = Runner(self.session, self._failed)
        self.controller: Controller | None = None
        self.session.start(self)

    def _failed(self, error: Exception) -> None:
        raise error

    def on_connected(self) -> None:
        self._stand()

    def _stand(self) -> None:
        self.runner.run(elect(self.broker_id, 0), self._elected)

    def _elected(self, outcome: Elected) -> None:
        if outcome.term is not None:
            settings = ControllerSettings(self.broker_id, LATEST, "PLAINTEXT", auto_leader_rebalance=False)
            self.controller = Controller(
                outcome.term,
                settings,
                self.session,
                self.town,
                self.process,
                lambda: "",
                self._failed,  # type: ignore[arg-type]
            )
            self.controller.start()

    def on_expired(self) -> None: ...

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == znodes.CONTROLLER:
            self._stand()
        elif self.controller is not None:
            self.controller.on_watch(event)


def broker_node(broker_id: int) -> bytes:
    endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", f"broker-{broker_id}.example", 9092),)
    return znodes.broker(znodes.BrokerNode(endpoints, None), 0, has_features=True)


class Cluster:
    def __init__(self, brokers: int, partitions: int, rates: Rates):
        self.world = World(1)
        self.town = Town(self.world, rates)
        self.registered: dict[int, ServerSession] = {}
        ids = list(range(1, brokers + 1))
        self._fill(ids, partitions)
        for broker_id in ids:
            session = ServerSession(10_000 + broker_id, _Nobody(), self.world.now)  # type: ignore[arg-type]
            self.registered[broker_id] = session
            self.town.model.carry_out(session, Create(znodes.broker_path(broker_id), broker_node(broker_id), ephemeral=True))
        self.candidates = [Candidate(self.town, 1)]
        self._settle()
        self.candidates.append(Candidate(self.town, 2))
        self._settle()

    def _fill(self, ids: list[int], partitions: int) -> None:
        """Topics and states as a controller left them: everything is led, everybody in sync."""
        nobody = ServerSession(9_999, _Nobody(), 0.0)  # type: ignore[arg-type]
        write = self.town.model.carry_out
        made = set()
        for path in znodes.MADE_AT_START:
            parts = path.strip("/").split("/")
            for above in ("/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))):
                if above not in made:
                    made.add(above)
                    write(nobody, Create(above))
        for first in range(0, partitions, PARTITIONS_PER_TOPIC):
            topic = f"topic-{first // PARTITIONS_PER_TOPIC:05d}"
            numbers = range(min(PARTITIONS_PER_TOPIC, partitions - first))
            replicas = {
                n: tuple(ids[(first + n + step * (1 + first % 7)) % len(ids)] for step in range(REPLICAS)) for n in numbers
            }
            node = znodes.TopicNode(
                {n: znodes.Assignment(each) for n, each in replicas.items()}, topic_id_text(first.to_bytes(16, "big"))
            )
            write(nobody, Create(znodes.topic_path(topic), znodes.topic(node, 3)))
            write(nobody, Create(znodes.partitions_path(topic)))
            for number, each in replicas.items():
                write(nobody, Create(znodes.partition_path(topic, number)))
                state = znodes.PartitionState(each[0], 0, each, 0)
                write(nobody, Create(znodes.state_path(topic, number), znodes.state(state)))

    @property
    def is_busy(self) -> bool:
        runners = [each.runner for each in self.candidates]
        runners += [each.controller._runner for each in self.candidates if each.controller is not None]
        return self.town.unanswered > 0 or any(len(runner) for runner in runners)

    def _settle(self) -> float:
        """Until nothing is asked and nothing is open any more; when that was."""
        last = self.world.now
        while self.world.now - last < 1.0:
            self.world.run(self.world.now + 0.05)
            if self.is_busy:
                last = self.world.now
        return last

    def bill_for(self, name: str, event: Callable[[], None]) -> Bill:
        bill = self.town.bill = Bill(name)
        began, self.town.elsewhere = time.process_time(), 0.0
        asked_at = self.world.now
        event()
        bill.seconds = self._settle() - asked_at
        bill.computed = time.process_time() - began - self.town.elsewhere
        return bill

    def controller_dies(self) -> None:
        """Broker 1, which is the controller: its session has just ended."""
        first = self.candidates[0]
        assert first.controller is not None
        first.controller.end()
        first.process.kill()
        assert first.session._session is not None
        self.town.end(first.session._session)
        self.town.model.end_session(self.registered[1])

    def broker_dies(self) -> None:
        self.town.model.end_session(self.registered[3])


class _Nobody:
    timeout = SESSION_SECONDS
    process = Process(World(0), "nobody")

    def told(self, session: Any, event: Any) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.sizing", description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000)
    given = parser.parse_args()
    rates = measure()
    print(f"ZooKeeper through kazoo: {rates.read * 1e6:.0f} µs a read, {rates.write * 1e6:.0f} µs a guarded write, pipelined")
    print(f"a broker: {rates.lead * 1e6:.0f} µs a partition of LeaderAndIsr, {rates.update * 1e6:.1f} µs one of UpdateMetadata")
    cluster = Cluster(given.brokers, given.partitions, rates)
    print(f"{given.brokers} brokers, {given.partitions} partitions, {REPLICAS} replicas each")
    for name, event in (("a broker dies", cluster.broker_dies), ("the controller dies", cluster.controller_dies)):
        bill = cluster.bill_for(name, event)
        print(f"{name}: {bill.seconds:.2f} s of waiting, {bill.computed:.2f} s computed by the controller")
        print(f"    ZooKeeper: {dict(bill.operations)}")
        print(f"    requests: {dict(bill.requests)} for partitions {dict(bill.partitions)}, {bill.bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
