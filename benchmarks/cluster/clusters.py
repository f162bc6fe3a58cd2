"""The two clusters: each three brokers and a ZooKeeper, all of them processes, over directories of their own.

Both have the same ZooKeeper (from PySpark's jars) and the same settings; Kafka's JVMs get what `kafka-server-start.sh` gives them. Topics
have three replicas, of which two have to have a record before it is acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.broker.brokers import JVM_OPTIONS, cpu_seconds_of
from benchmarks.broker.kafka_jars import jars, java
from benchmarks.installed import THIS, Installed
from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.client.metadata import ClusterInfo, from_response
from milepost.cluster.local.ports import free_ports
from milepost.cluster.overview import Overview, overview
from milepost.cluster.zookeeper.reader import ZooKeeperReader
from milepost.cluster.zookeeper.server import ZooKeeperServer
from milepost.errors import BrokerUnavailable
from milepost.protocol.messages import MetadataRequest

POM = Path(__file__).with_name("pom.xml")
KAFKA = "3.9.1"
UP_SECONDS = 180
STOP_SECONDS = 120
CATCH_UP_SECONDS = 1.0
SETTINGS = {
    "log.segment.delete.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.connection.timeout.ms": "30000",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class BrokerOf:
    """One broker of a cluster."""

    def __init__(self, broker_id: int, directory: Path, port: int, control_port: int):
        self.broker_id = broker_id
        self.directory = directory
        self.data = directory / "data"
        self.port = port
        self.control_port = control_port
        self.process: subprocess.Popen[bytes] | None = None

    def connect(self, timeout: float = 60.0, port: int | None = None) -> Connection:
        return Connection(Address("127.0.0.1", port or self.port), timeout=timeout)

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(STOP_SECONDS)
            self.process = None

    def rss_mb(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        assert self.process is not None
        return cpu_seconds_of(self.process.pid)


class Cluster:
    """What the two have in common; they say how a broker is started."""

    name = ""

    def __init__(self, directory: Path, count: int = 3, *, has_control_listener: bool = False, session_ms: int = 6000):
        self.directory = directory / self.name
        self.session_ms = session_ms
        self.has_control_listener = has_control_listener
        ports = free_ports(2 * count + 1)
        self.zookeeper = ZooKeeperServer(str(self.directory / "zookeeper"), ports[-1])
        self.brokers = {
            number: BrokerOf(number, self.directory / f"broker-{number}", ports[number - 1], ports[count + number - 1])
            for number in range(1, count + 1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def settings(self, broker: BrokerOf) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{broker.port}"
        settings = {**SETTINGS, "zookeeper.connect": f"{self.zookeeper.address}/bench", "broker.id": str(broker.broker_id)}
        settings |= {"log.dirs": str(broker.data), "listeners": listeners}
        settings["zookeeper.session.timeout.ms"] = str(self.session_ms)
        if self.has_control_listener:
            settings["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{broker.control_port}"
            settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            settings["control.plane.listener.name"] = "CONTROLLER"
        if len(self.brokers) == 1:
            settings["min.insync.replicas"] = "1"
        return settings

    def command(self, broker: BrokerOf) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    # Its life.

    def start(self) -> float:
        """ZooKeeper and all brokers; the seconds until every broker knew of all others and of a controller."""
        self.directory.mkdir(parents=True, exist_ok=True)
        before = time.monotonic()
        self.zookeeper.start()
        self.zookeeper.wait()
        for number in self.brokers:
            self.begin(number)
        self.wait_until_up(self.brokers)
        return time.monotonic() - before

    def begin(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.directory.mkdir(parents=True, exist_ok=True)
        with (broker.directory / "output").open("ab") as output:
            broker.process = subprocess.Popen(
                self.command(broker), stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self.environment()
            )

    def wait_until_up(self, numbers: Iterable[int]) -> None:
        deadline = time.monotonic() + UP_SECONDS
        waiting = set(numbers)
        while waiting:
            for number in list(waiting):
                broker = self.brokers[number]
                if broker.process is None or broker.process.poll() is not None or time.monotonic() > deadline:
                    text = (broker.directory / "output").read_text(errors="replace")
                    raise SystemExit(f"{self.name}: broker {number} did not start:\n{text[-3000:]}")
                info = self.ask_metadata(number)
                if info is not None and info.controller_id >= 0 and len(info.nodes) == self.running:
                    waiting.discard(number)
            time.sleep(0.005)

    @property
    def running(self) -> int:
        return sum(broker.process is not None for broker in self.brokers.values())

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Stopped where it stands: it keeps what it has compiled and cached, and takes nothing from another cluster that is measured."""
        pids = [broker.process.pid for broker in self.brokers.values() if broker.process is not None]
        assert self.zookeeper.process is not None
        pids.append(self.zookeeper.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(pids):
                os.kill(pid, signal.SIGCONT)
            time.sleep(CATCH_UP_SECONDS)

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].end(signal.SIGKILL)

    def stop_broker(self, broker_id: int) -> None:
        self.brokers[broker_id].end(signal.SIGTERM)

    def remove(self) -> None:
        for broker in self.brokers.values():
            broker.end(signal.SIGKILL)
        self.zookeeper.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    # What it is asked.

    def ask_metadata(self, broker_id: int, topics: Iterable[str] = ()) -> ClusterInfo | None:
        wanted = [MetadataRequest.Topic(name=name) for name in topics]
        with contextlib.suppress(BrokerUnavailable, OSError), self.brokers[broker_id].connect() as connection:
            return from_response(connection.ask(MetadataRequest(topics=wanted)))
        return None

    def reader(self) -> ZooKeeperReader:
        return ZooKeeperReader(f"{self.zookeeper.address}/bench")

    def overview(self) -> Overview:
        with self.reader() as reader:
            return overview(reader)

    def cpu_seconds(self) -> float:
        return sum(broker.cpu_seconds() for broker in self.brokers.values() if broker.process is not None)

    def rss_mb(self) -> float:
        """Of the largest broker."""
        return max(broker.rss_mb() for broker in self.brokers.values() if broker.process is not None)


class MilepostCluster(Cluster):
    name = "milepost"
    installed = THIS

    def environment(self) -> dict[str, str]:
        return self.installed.environment(self.directory.parents[1] / "bytecode")

    def command(self, broker: BrokerOf) -> list[str]:
        pairs = [part for key, value in self.settings(broker).items() for part in ("-X", f"{key}={value}")]
        return [*self.installed.serve, *pairs]


def other_milepost(installed: Installed) -> type[MilepostCluster]:
    """Another version, to be compared with."""
    return type("OtherCluster", (MilepostCluster,), {"name": "other", "installed": installed})


class KafkaCluster(Cluster):
    name = "Kafka"

    def command(self, broker: BrokerOf) -> list[str]:
        path = broker.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.settings(broker).items()))
        return [java(), *JVM_OPTIONS, "-cp", f"{jars(POM, KAFKA)}/*", "kafka.Kafka", str(path)]
