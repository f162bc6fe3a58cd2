"""The two brokers, each a process over a data directory of its own: start, stop, kill, and what it costs.

Both run with their default settings, except that logs of deleted topics go at once, so that the next run does not pay for
the last one's disk. Kafka's JVM gets what `kafka-server-start.sh` gives it: a heap of 1 GB, G1, 20 ms of pause.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from benchmarks.broker.kafka_jars import jars, java
from benchmarks.installed import THIS, Installed
from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.errors import BrokerUnavailable
from milepost.protocol.messages import MetadataRequest

START_SECONDS = 180
STOP_SECONDS = 120
SETTINGS = {"log.segment.delete.delay.ms": "0", "auto.create.topics.enable": "false"}
JVM_OPTIONS = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]


class Broker:
    """What the two have in common; the others say how they are started and prepared."""

    name = ""

    def __init__(self, directory: Path):
        self.directory = directory / self.name
        self.data = self.directory / "data"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def prepare(self) -> None:
        """Whatever a new data directory needs before the first start."""

    def start(self) -> float:
        """Over the data as they are; the seconds until it answered a Metadata request."""
        if not self.directory.exists():
            self.directory.mkdir(parents=True)
            self.port = free_port()
            self.prepare()
        with (self.directory / "output").open("ab") as output:
            before = time.monotonic()
            self.process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self.environment()
            )
        while True:
            if self.process.poll() is not None or time.monotonic() - before > START_SECONDS:
                output_text = (self.directory / "output").read_text(errors="replace")
                raise SystemExit(f"{self.name} did not start within {START_SECONDS} s:\n{output_text[-3000:]}")
            if self._answers():
                return time.monotonic() - before
            time.sleep(0.001)

    def _answers(self) -> bool:
        with contextlib.suppress(BrokerUnavailable, OSError), self.connect(START_SECONDS) as connection:
            return bool(connection.ask(MetadataRequest(topics=[])).brokers)
        return False

    def connect(self, timeout: float = 120.0) -> Connection:
        return Connection(Address("127.0.0.1", self.port), timeout=timeout)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(STOP_SECONDS)
            self.process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def rss_mb(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        assert self.process is not None
        return cpu_seconds_of(self.process.pid)


class Milepost(Broker):
    name = "milepost"
    installed = THIS

    def command(self) -> list[str]:
        settings = [part for key, value in SETTINGS.items() for part in ("-X", f"{key}={value}")]
        return [*self.installed.serve, "--data", str(self.data), "--port", str(self.port), *settings]

    def environment(self) -> dict[str, str]:
        return self.installed.environment(self.directory.parent / "bytecode")


def other_milepost(installed: Installed) -> type[Milepost]:
    """Another version, to be compared with."""
    return type("OtherMilepost", (Milepost,), {"name": "other", "installed": installed})


class Kafka(Broker):
    """One node, broker and controller, KRaft."""

    name = "Kafka"

    def command(self) -> list[str]:
        return [java(), *JVM_OPTIONS, "-cp", f"{jars()}/*", "kafka.Kafka", str(self.directory / "server.properties")]

    def prepare(self) -> None:
        controller = free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **SETTINGS,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [
            java(),
            "-cp",
            f"{jars()}/*",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "bWlsZXBvc3QtYmVuY2htYQ",
            "-c",
            str(path),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"Kafka's data directory could not be formatted:\n{done.stdout}{done.stderr}")


def cpu_seconds_of(pid: int) -> float:
    """What a process has used, to the nanosecond: /proc counts hundredths of a second, too coarse for a run of less than one."""
    # The process's own clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime(~pid << 3 | 2)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
