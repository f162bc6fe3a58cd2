"""Brokers of one cluster as processes of their own, on a real ZooKeeper: started, stopped, killed, paused, started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.cluster.local.ports import hold
from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests import waiting
from tests.cluster.asking import assigned, end_session, in_sync, metadata, until, written_in_sync, zookeeper_client
from tests.waiting import PROCESS_PATIENCE

if TYPE_CHECKING:
    from typing import Self

# Nobody is taken for dead who is only slow. Whoever is killed can be buried.
SETTINGS = {
    "zookeeper.session.timeout.ms": "30000",
    "zookeeper.connection.timeout.ms": "120000",
    "replica.lag.time.max.ms": "30000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "200",
}
# What happens after a death happens soon; also to one who lives, if the machine is busy.
MISSED_SOON = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "2000"}


_held: list[socket.socket] = []


def free_port() -> int:
    """It is ours as long as this process runs, also while its broker is dead: no client and no other run of the tests gets it."""
    _held.append(hold())
    port: int = _held[-1].getsockname()[1]
    return port


@contextmanager
def running_zookeeper(directory: Path) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(str(directory), free_port())
    try:
        server.start()
        server.wait(PROCESS_PATIENCE)
        yield server
    finally:
        server.stop()


class BrokerProcess:
    program = "milepost.cli"

    def __init__(self, broker_id: int, directory: Path, zookeeper: str, settings: dict[str, str]):
        self.broker_id = broker_id
        self.data = directory / f"broker-{broker_id}"
        self.output = directory / f"broker-{broker_id}.out"
        self.port = free_port()
        self.settings = {**SETTINGS, "zookeeper.connect": zookeeper, "broker.id": str(broker_id), **settings}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", self.program, "serve", "-v", "--data", str(self.data)]
        for name, value in {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", **self.settings}.items():
            command += ["-X", f"{name}={value}"]
        self.data.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            output.write(b"-- start\n")
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=os.environ)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it is registered and serves."""

        def is_ready() -> bool:
            assert self.is_running, f"broker {self.broker_id} ended:\n{self.text()[-4000:]}"
            return f"ready {self.address}" in self.text().rpartition("-- start")[2]

        waiting.until(is_ready, f"broker {self.broker_id} is ready: see {self.output}", PROCESS_PATIENCE, pause=0.02)

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.is_running:
            self.send(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def stop(self) -> int:
        """A clean stop; how it ended."""
        self.send(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(PROCESS_PATIENCE)


class ClusterProcesses:
    """`with ClusterProcesses(...) as cluster:` starts all brokers at once and kills what is left of them at the end."""

    def __init__(self, directory: Path, zookeeper: str, count: int = 3, settings: dict[str, str] | None = None):
        self.zookeeper = zookeeper
        self.brokers = {number: BrokerProcess(number, directory, zookeeper, settings or {}) for number in range(1, count + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def running(self) -> list[BrokerProcess]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start(wait=False)
        for broker in self.brokers.values():
            broker.wait()
        self.wait_until_all_are_known()

    def wait_until_all_are_known(self) -> None:
        """A client that hears of no controller from the one that came last asks again after five minutes."""
        for broker in self.brokers.values():
            known = f"all are known to broker {broker.broker_id}"
            until(lambda broker=broker: metadata(broker.address).brokers.keys() == self.brokers.keys(), known)

    def wait_until_in_sync(self, topic: str) -> None:
        """All replicas of all its partitions, and every broker that runs has heard of it."""
        with zookeeper_client(self.zookeeper) as client:
            replicas = assigned(client, topic)
            until(lambda: written_in_sync(client, topic) == replicas, f"all replicas of {topic} are in sync")
        for broker in self.running:
            heard = f"broker {broker.broker_id} has heard that {topic} is in sync"
            until(lambda broker=broker: in_sync(broker.address, topic) == replicas, heard)

    def bury(self, broker_id: int) -> None:
        """Kill it, and end its session."""
        self.brokers[broker_id].kill()
        with zookeeper_client(self.zookeeper) as client:
            end_session(client, broker_id)

    def __exit__(self, *exception: object) -> None:
        for broker in self.running:
            broker.send(signal.SIGCONT)
            broker.kill()
