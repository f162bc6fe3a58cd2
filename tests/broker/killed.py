"""A broker that is killed and started again, and readers that stay while that happens."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError

from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.ports import held_port
from tests.waiting import PROCESS_PATIENCE

PARTITIONS = 2
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
# Answered while the broker is away or has only just come back; librdkafka asks again by itself.
PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
# When all brokers are down librdkafka 2.16 starts over from its bootstrap servers, and may go on asking a broker that it has given up: its
# TxnOffsetCommit, for one, was never sent. With one broker there is nothing else to be found there anyway.
LASTING = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}


class KilledBroker:
    """`milepost serve` in a process of its own, on the same port and over the same directory every time."""

    def __init__(self, directory: Path, port: int, settings: dict[str, str]):
        self.port = port
        self.errors = directory / "broker.err"
        self.kills = 0
        self._command = [
            sys.executable,
            "-m",
            "milepost.cli",
            "serve",
            "--data",
            str(directory / "data"),
            "--port",
            str(self.port),
        ]
        for name, value in {**SETTINGS, **settings}.items():
            self._command += ["-X", f"{name}={value}"]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                return
        raise AssertionError(
            f"the broker ended with {self.process.wait()} before it was ready:\n{self.errors.read_text()[-4000:]}"
        )

    def kill(self) -> None:
        """kill -9, and the next life."""
        self._end(signal.SIGKILL)
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """A clean end; in none of its lives did a handler let an exception through."""
        code = self._end(signal.SIGTERM)
        errors = self.errors.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in errors, errors[-4000:]
        assert code == 0, f"the broker ended with {code}:\n{errors[-4000:]}"

    def _end(self, with_signal: signal.Signals) -> int:
        self.process.send_signal(with_signal)
        code = self.process.wait(PROCESS_PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def killed_broker(directory: Path, *topics: str, settings: dict[str, str] | None = None) -> Iterator[KilledBroker]:
    with held_port() as port:
        broker = KilledBroker(directory, port, settings or {})
        broker.start()
        try:
            with Wire(broker.bootstrap) as wire:
                create(wire, *(wanted(topic, PARTITIONS) for topic in topics))
            yield broker
        except BaseException:
            print(broker.errors.read_text(encoding="utf-8", errors="replace")[-4000:])  # shown by pytest with what failed
            broker.process.kill()
            broker.process.wait()
            assert broker.process.stdout is not None
            broker.process.stdout.close()
            raise
        broker.stop()


class Reader(threading.Thread):
    """A member of the group `readers`, which reads a topic of numbers from its start and commits what it has seen.

    After a rebalance it may get a record again: it must be the same one then. `found` is partition → offset → value, shared by the
    members; a fault is kept for the test to find.
    """

    def __init__(self, bootstrap: str, topic: str, found: dict[int, dict[int, int]], **settings: str):
        super().__init__(name=f"reader of {topic}", daemon=True)
        self.topic = topic
        self.found = found
        self.fault: BaseException | None = None
        self._is_over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **LASTING,
                **settings,
            }
        )

    def run(self) -> None:
        try:
            self._consumer.subscribe([self.topic])
            while not self._is_over.is_set():
                messages = self._consumer.consume(2000, 0.1)
                for message in messages:
                    self._take(message)
                if messages:
                    self._consumer.commit(asynchronous=True)
        except BaseException as error:
            self.fault = error
        finally:
            self._consumer.close()

    def _take(self, message) -> None:
        if message.error() is not None:
            assert message.error().code() in PASSING, message.error()
            return
        known = self.found.setdefault(message.partition(), {}).setdefault(message.offset(), int(message.value()))
        assert known == int(message.value()), (
            f"{message.topic()}-{message.partition()}: offset {message.offset()} was {known}, now {int(message.value())}"
        )

    def leave(self) -> None:
        self._is_over.set()
        self.join(PROCESS_PATIENCE)
        assert not self.is_alive(), "a reader does not end"

    def end(self) -> None:
        self.leave()
        if self.fault is not None:
            raise self.fault


class Readers:
    """Two of them, from the start of the `with` block to `values`."""

    def __init__(self, bootstrap: str, topic: str, **settings: str):
        self._found: dict[int, dict[int, int]] = {}
        self._members = [Reader(bootstrap, topic, self._found, **settings) for _ in range(2)]

    def __enter__(self) -> Readers:
        for member in self._members:
            member.start()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            member.leave()

    @property
    def count(self) -> int:
        return sum(map(len, list(self._found.values())))

    def values(self, wanted: int, seconds: float = 300) -> dict[int, list[int]]:
        """What they have read of each partition, in the order of the log, once it is as much as was wanted, and a moment later."""
        deadline = time.monotonic() + seconds
        while self.count < wanted and time.monotonic() < deadline and all(member.fault is None for member in self._members):
            time.sleep(0.05)
        time.sleep(0.5)  # for what should not be there
        for member in self._members:
            member.end()
        assert self.count == wanted, f"{wanted} records were written, {self.count} were read: {self._counts()}"
        return {partition: [values[offset] for offset in sorted(values)] for partition, values in self._found.items()}

    def _counts(self) -> dict[int, int]:
        return {partition: len(values) for partition, values in self._found.items()}
