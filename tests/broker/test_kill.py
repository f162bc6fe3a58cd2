"""kill -9 under a producer that retries: nothing that was acknowledged is lost, doubled or out of order."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 2


class Served:
    """A broker in a process of its own, on the same port every time."""

    def __init__(self, directory: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.directory = directory

    def start(self) -> None:
        command = [sys.executable, "-m", "milepost.cli", "serve", "--data", str(self.directory), "--port", str(self.port)]
        settings = ["-X", f"num.partitions={PARTITIONS}", "-X", "offsets.topic.num.partitions=1"]
        self.process = subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                return
        raise AssertionError(f"the broker ended with {self.process.wait()} before it was ready")

    def end(self, with_signal: signal.Signals) -> int:
        self.process.send_signal(with_signal)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def read_all(bootstrap: str, wanted: int, seconds: float = 60) -> dict[int, list[int]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition("killed", partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    deadline = time.monotonic() + seconds
    idle_since = time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - idle_since < 3:
        for message in consumer.consume(5000, 0.2):
            assert message.error() is None, message.error()
            found[message.partition()].append(int(message.value()))
            idle_since = time.monotonic()
        if sum(map(len, found.values())) >= wanted:
            idle_since = min(idle_since, time.monotonic() - 2)
    consumer.close()
    return found


def kill_cycles(directory: Path, cycles: int, records_per_cycle: int) -> None:
    served = Served(directory)
    served.start()
    rng = random.Random(7)
    acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    failures: list[str] = []

    def delivered(error, message) -> None:
        if error is None:
            acknowledged[message.partition()].append(int(message.value()))
        else:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": served.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "linger.ms": 1,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    number = 0
    for _ in range(cycles):
        for _ in range(records_per_cycle):
            producer.produce("killed", b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
            number += 1
            if number % 100 == 0:
                producer.poll(0)
        producer.poll(rng.random() * 0.05)
        served.end(signal.SIGKILL)
        served.start()
    assert producer.flush(60) == 0
    assert failures == []
    found = read_all(served.bootstrap, number)
    assert served.end(signal.SIGTERM) == 0
    for partition in range(PARTITIONS):
        sent = list(range(partition, number, PARTITIONS))
        assert sorted(acknowledged[partition]) == sent
        assert found[partition] == sent, "what is read is what was sent: once each, in order"


def test_five_kills_lose_nothing(tmp_path):
    kill_cycles(tmp_path / "data", 5, 4000)


@pytest.mark.trouble
def test_fifty_kills_lose_nothing(tmp_path):
    kill_cycles(tmp_path / "data", 50, 4000)
