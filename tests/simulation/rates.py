"""How long ZooKeeper and brokers need for what a controller asks of them, measured on the real ones.

ZooKeeper is a server of one's own, asked through kazoo as brokers do, many operations at a time. The broker's part is what its loop does;
files are written in memory, because a real one writes them aside.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from milepost.cluster.controller_election import Term, guarded
from milepost.cluster.protocol_versions import LATEST
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Get, Operation, Result, SetData, WatchEvent
from milepost.protocol import generated
from milepost.protocol.apis import BY_NAME
from milepost.protocol.messages import LeaderAndIsrRequest, UpdateMetadataRequest
from milepost.work import at_once
from tests.checker.history import History
from tests.crash.memory_disk import MemoryDisk
from tests.simulation.broker import SimulatedBroker
from tests.simulation.network import Network
from tests.simulation.session import SimulatedZooKeeper
from tests.simulation.world import World


@dataclass
class Rates:
    """Seconds that others need: ZooKeeper for a read and a guarded write, a broker for a partition of LeaderAndIsr, of UpdateMetadata."""

    read: float = 0.00005
    write: float = 0.0001
    lead: float = 0.00005
    update: float = 0.000005


def measure() -> Rates:
    return Rates(*measure_zookeeper(), *measure_broker())


def measure_zookeeper(count: int = 5000) -> tuple[float, float]:
    """Seconds for a read and for a guarded write, of many that are asked together."""
    from milepost.cluster.zookeeper.kazoo_session import KazooSession
    from milepost.cluster.zookeeper.server import ZooKeeperServer
    from milepost.net.event_loop import EventLoop
    from tests.cluster.processes import free_port

    with tempfile.TemporaryDirectory() as directory:
        server = ZooKeeperServer(directory, free_port())
        server.start()
        server.wait()
        time.sleep(1.0)  # it accepts connections a moment before it answers
        loop = EventLoop()
        session = KazooSession(server.address, loop)
        connected: list[bool] = []
        session.start(_Owner(connected))
        while not connected:
            loop.run_once(0.02)

        def ask(operations: Sequence[Operation]) -> float:
            answers: list[Sequence[Result]] = []
            began = time.perf_counter()
            session.submit(operations, answers.append)
            while not answers:
                loop.run_once(0.02)
            assert all(result.ok for result in answers[0]), answers[0][:3]
            return (time.perf_counter() - began) / len(operations)

        state = znodes.state(znodes.PartitionState(1, 0, (1, 2, 3), 0))
        ask([Create(znodes.CONTROLLER_EPOCH, b"1")])
        ask([Create(f"/{number}", state) for number in range(count)])
        read = min(ask([Get(f"/{number}") for number in range(count)]) for _ in range(3))
        write = min(ask(guarded(Term(1, 0), [SetData(f"/{number}", state) for number in range(count)])) for _ in range(3))
        session.close()
        loop.close()
        server.stop()
        return read, write


def measure_broker(count: int = 1000) -> tuple[float, float]:
    """Seconds that a broker needs for a partition that it is told to lead, and for one that it is told about."""
    settings = {"log.index.size.max.bytes": 2000}
    broker = SimulatedBroker(1, Network(World(1)), SimulatedZooKeeper(Network(World(1))), MemoryDisk({}), History(), settings)
    broker.start()
    topic_id = bytes(range(16))

    def order(epoch: int, leader: int) -> float:
        state = LeaderAndIsrRequest.TopicState.PartitionState
        states = [
            state(partition_index=number, leader=leader, leader_epoch=epoch, isr=[1, 2, 3], replicas=[1, 2, 3])
            for number in range(count)
        ]
        topic = LeaderAndIsrRequest.TopicState(topic_name="t", topic_id=topic_id, partition_states=states)
        handler = broker.broker.leader_and_isr
        return timed(
            "LeaderAndIsr",
            LeaderAndIsrRequest(topic_states=[topic]),
            lambda request, version: at_once(handler.leading_and_following(request, version, 0, handler.suspensions)),
        )

    def news() -> float:
        state = UpdateMetadataRequest.TopicState.PartitionState
        states = [state(partition_index=number, leader=1, isr=[1, 2, 3], replicas=[1, 2, 3]) for number in range(count)]
        topic = UpdateMetadataRequest.TopicState(topic_name="t", topic_id=topic_id, partition_states=states)
        return timed(
            "UpdateMetadata",
            UpdateMetadataRequest(topic_states=[topic]),
            lambda request, _: at_once(broker.broker.taking_metadata(request)),
        )

    def timed(name: str, request: Any, handle: Callable[[Any, int], object]) -> float:
        key, version = BY_NAME[name].key, LATEST.leader_and_isr if name == "LeaderAndIsr" else LATEST.update_metadata
        pieces: list[bytes] = []
        generated.request_encoder(key, version)(request, pieces.append)
        frame = b"".join(pieces)
        began = time.process_time()
        handle(generated.request_decoder(key, version)(frame, 0)[0], version)
        return (time.process_time() - began) / count

    order(0, 1)
    return max(order(1, 2), order(2, 1)), max(news() for _ in range(3))


class _Owner:
    def __init__(self, connected: list[bool]):
        self.connected = connected

    def on_connected(self) -> None:
        self.connected.append(True)

    def on_expired(self) -> None: ...

    def on_watch(self, event: WatchEvent) -> None: ...
