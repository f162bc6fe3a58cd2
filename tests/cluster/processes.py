"""Brokers of one cluster as processes of their own, on a real ZooKeeper: started, stopped, killed, paused, started again."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

READY_SECONDS = 40.0
STOP_SECONDS = 40.0

# Short times, so that what happens after a death happens soon.
SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "200",
}


PORTS = range(15_000, 32_000)
"""Below those that the system gives to clients: one of theirs may be taken while a broker is dead."""


def free_port() -> int:
    for _ in range(1000):
        try:
            with socket.create_server(("127.0.0.1", random.choice(PORTS))) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    raise AssertionError("no port is free")


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
        deadline = time.monotonic() + READY_SECONDS
        while f"ready 127.0.0.1:{self.port}" not in self.text().rpartition("-- start")[2]:
            assert self.process is not None and self.process.poll() is None, (
                f"broker {self.broker_id} ended:\n{self.text()[-4000:]}"
            )
            assert time.monotonic() < deadline, f"broker {self.broker_id} is not ready:\n{self.text()[-4000:]}"
            time.sleep(0.02)

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
        return self.process.wait(STOP_SECONDS)


class ClusterProcesses:
    """`with ClusterProcesses(...) as cluster:` starts all brokers at once and kills what is left of them at the end."""

    def __init__(self, directory: Path, zookeeper: str, count: int = 3, settings: dict[str, str] | None = None):
        self.zookeeper = zookeeper
        self.brokers = {number: BrokerProcess(number, directory, zookeeper, settings or {}) for number in range(1, count + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def __enter__(self) -> ClusterProcesses:
        try:
            for broker in self.brokers.values():
                broker.start(wait=False)
            for broker in self.brokers.values():
                broker.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for broker in self.brokers.values():
            if broker.is_running:
                broker.send(signal.SIGCONT)
                broker.kill()
