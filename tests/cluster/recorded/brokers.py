"""Three milepost brokers set up as the recorded ones of Kafka were: racks, three listeners each, taps before those of brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from tests.cluster.asking import node, until
from tests.cluster.processes import BrokerProcess, free_port
from tests.cluster.recorded.taps import Tap, Taps
from tests.waiting import PROCESS_PATIENCE

Tree = dict[str, dict[str, Any]]

QUIET_SECONDS = 0.4
SETTINGS = {
    "inter.broker.listener.name": "REPL",
    "control.plane.listener.name": "CTRL",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPL:PLAINTEXT,CTRL:PLAINTEXT",
    "min.insync.replicas": "2",
    # A lagging follower is noticed before its session ends, which the steps do: both are longer than anybody is slow.
    "replica.lag.time.max.ms": "8000",
    "zookeeper.session.timeout.ms": "60000",
}


class RecordedBrokers:
    def __init__(self, directory: Path, zookeeper: str, version: str, taps: Taps):
        server, _, chroot = zookeeper.partition("/")
        self.taps = taps
        self.to_zookeeper: dict[int, Tap] = {}
        self.brokers: dict[int, BrokerProcess] = {}
        for broker_id in (1, 2, 3):
            tap = self.to_zookeeper[broker_id] = taps.add(int(server.rpartition(":")[2]))
            settings = SETTINGS | {"broker.rack": f"r{broker_id}", "inter.broker.protocol.version": version}
            broker = BrokerProcess(broker_id, directory, f"127.0.0.1:{tap.port}/{chroot}", settings)
            broker.program = "tests.cluster.recorded.fixed_placement"
            ports = {"CLIENT": broker.port, "REPL": free_port(), "CTRL": free_port()}
            told = {name: port if name == "CLIENT" else taps.add(port, broker_id).port for name, port in ports.items()}
            broker.settings |= {"listeners": addresses(ports), "advertised.listeners": addresses(told)}
            self.brokers[broker_id] = broker
        self.kazoo = KazooClient(server, timeout=60)
        self.kazoo.start(PROCESS_PATIENCE)
        self.kazoo.chroot = f"/{chroot}"  # the first broker makes it

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.is_running:
                broker.kill()
        self.kazoo.stop()
        self.kazoo.close()

    # Asking.

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values() if broker.is_running)

    def ask(self, broker_id: int, request: Any) -> Any:
        with Connection(Address("127.0.0.1", self.brokers[broker_id].port), timeout=PROCESS_PATIENCE) as connection:
            return connection.ask(request)

    def node(self, path: str) -> Any:
        return node(self.kazoo, path)

    @property
    def controller(self) -> int:
        found = self.node("/controller")
        return int(found["brokerid"]) if found else -1

    @property
    def alive(self) -> list[int]:
        return sorted(map(int, self.kazoo.get_children("/brokers/ids")))

    def states(self, topic: str) -> dict[int, Any]:
        partitions = self.node(f"/brokers/topics/{topic}")["partitions"]
        return {int(number): self.node(f"/brokers/topics/{topic}/partitions/{number}/state") for number in partitions}

    def all_states(self) -> list[tuple[list[int], Any]]:
        """(replicas, state) of every partition."""
        found = []
        for topic in self.kazoo.get_children("/brokers/topics"):
            known = self.node(f"/brokers/topics/{topic}") or {"partitions": {}}  # gone while we look
            path = f"/brokers/topics/{topic}/partitions"
            found += [(replicas, self.node(f"{path}/{number}/state")) for number, replicas in known["partitions"].items()]
        return found

    @property
    def is_in_sync(self) -> bool:
        """Whether exactly the replicas of living brokers are in sync; one that was the last stays."""
        alive = set(self.alive)
        return all(
            state is not None and (set(state["isr"]) == set(replicas) & alive or not set(replicas) & alive)
            for replicas, state in self.all_states()
        )

    # Waiting.

    def until(self, is_so: Callable[[], object], what: str) -> None:
        until(is_so, what)
        self.until_quiet()

    def until_quiet(self) -> None:
        """Everything was answered, and nobody was told anything for a moment."""
        until(lambda: time.monotonic() > self.taps.last_time + QUIET_SECONDS and not self.taps.unanswered, "all is answered")

    def until_followed_by(self, follower: int) -> None:
        """Every other broker that lives has answered a fetch of the follower's by now: it has asked for another since."""
        before = self.taps.fetches.copy()
        for leader in set(self.alive) - {follower}:
            asked = (leader, f"broker-{follower}-fetcher-0")
            until(lambda asked=asked: self.taps.fetches[asked] >= before[asked] + 2, f"{leader} is followed by {follower}")

    def tree(self) -> Tree:
        return tree_of(self.kazoo)


def tree_of(kazoo: Any) -> Tree:
    """All znodes. It is not one moment's tree: what goes while we look, as notes of changed in-sync replicas do, is not in it."""
    found: Tree = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        try:
            if path != "/":
                data, stat = kazoo.get(path)
                found[path] = {
                    "data": data.decode() if data else None,
                    "version": stat.version,
                    "cversion": stat.cversion,
                    "ephemeral": stat.ephemeralOwner != 0,
                    "numChildren": stat.numChildren,
                }
            names = kazoo.get_children(path)
        except NoNodeError:
            found.pop(path, None)
            continue
        # `/milepost` is what Kafka has nothing like: the secret of the brokers.
        waiting += [f"{path.rstrip('/')}/{name}" for name in names if (path, name) != ("/", "milepost")]
    return found


def addresses(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
