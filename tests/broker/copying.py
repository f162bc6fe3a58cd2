"""Consume, transform, produce: topic `in` is copied to `out` in transactions that hold the consumer's offsets too, while the broker dies.

RdkafkaCopier  librdkafka: adds partitions itself (versions 0 and 1 of the protocol)
JavaCopier     the Java client 4.3.0: leaves it to the broker, an epoch for every transaction (version 2)
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.broker.killed import LASTING, PARTITIONS, PASSING
from tests.clients.java_tools import java_command
from tests.waiting import PROCESS_PATIENCE

SOURCE = Path(__file__).parent / "java" / "ExactlyOnce.java"
BATCH = 200
END_SECONDS = 120


class Copier(Protocol):
    copied: int
    """Records in transactions that are known to be committed."""
    transactions: int
    aborted: int
    fault: str | None

    def start(self) -> None: ...

    def join(self, timeout: float) -> None: ...

    def is_alive(self) -> bool: ...

    def stop(self) -> None:
        """It need not be done."""


@contextmanager
def copying(copier: Copier) -> Iterator[None]:
    copier.start()
    try:
        yield
    finally:
        copier.stop()
        copier.join(PROCESS_PATIENCE)


class RdkafkaCopier(threading.Thread):
    def __init__(self, bootstrap: str, wanted: int):
        super().__init__(name="copier", daemon=True)
        self.wanted = wanted
        self.copied = self.transactions = self.aborted = 0
        self.fault: str | None = None
        self._is_stopped = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copier",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **LASTING,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "copier",
                "message.timeout.ms": 300_000,
                "transaction.timeout.ms": 300_000,
                "linger.ms": 0,
                **LASTING,
            }
        )

    def run(self) -> None:
        try:
            self._again(lambda: self._producer.init_transactions(END_SECONDS))
            self._consumer.subscribe(["in"])
            while self.copied < self.wanted and not self._is_stopped:
                messages = [message for message in self._consumer.consume(BATCH, 0.1) if self._is_record(message)]
                if messages:
                    self._copy(messages)
        except BaseException as error:
            self.fault = repr(error)
        finally:
            self._consumer.close()

    def stop(self) -> None:
        self._is_stopped = True

    @staticmethod
    def _is_record(message) -> bool:
        if message.error() is not None:
            assert message.error().code() in PASSING, message.error()
        return message.error() is None

    def _copy(self, messages: list) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce("out", message.value(), partition=message.partition())
            positions = [position for position in self._consumer.position(self._consumer.assignment()) if position.offset >= 0]
            group = self._consumer.consumer_group_metadata()
            self._again(lambda: producer.send_offsets_to_transaction(positions, group, END_SECONDS))
            self._again(lambda: producer.commit_transaction(END_SECONDS))
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            self._again(lambda: producer.abort_transaction(END_SECONDS))
            self.aborted += 1
            for committed in self._consumer.committed(self._consumer.assignment(), END_SECONDS):
                self._consumer.seek(TopicPartition("in", committed.partition, max(committed.offset, 0)))
        else:
            self.copied += len(messages)
            self.transactions += 1

    def _again(self, step) -> None:
        while True:
            try:
                step()
            except KafkaException as failed:
                if self._is_stopped or not failed.args[0].retriable() or failed.args[0].txn_requires_abort():
                    raise
            else:
                return


class JavaCopier(threading.Thread):
    def __init__(self, bootstrap: str, wanted: int, group_protocol: str = "classic"):
        super().__init__(name="copier", daemon=True)
        self.copied = self.transactions = self.aborted = 0
        self.fault: str | None = None
        command = java_command("4.3.0", str(SOURCE), bootstrap, group_protocol, str(wanted))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self) -> None:
        self._process.kill()

    def run(self) -> None:
        with self._process as process:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                word, _, rest = line.strip().partition(" ")
                if word == "committed":
                    self.copied = int(rest)
                    self.transactions += 1
                elif word == "aborted":
                    self.aborted += 1
            errors = process.stderr.read()
        if process.returncode:
            self.fault = f"the Java copier ended with {process.returncode}:\n{errors[-4000:]}"


class Source:
    """Fills `in` with numbers, evenly over its partitions; what the broker does not take at once is sent again."""

    def __init__(self, bootstrap: str):
        self._failures: list[KafkaError] = []
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": 300_000,
                "linger.ms": 0,
                **LASTING,
            }
        )

    def give(self, count: int) -> None:
        for number in range(self._number, self._number + count):
            self._producer.produce("in", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
        self._number += count
        self._producer.poll(0)

    def end(self) -> None:
        assert self._producer.flush(300) == 0
        assert self._failures == []

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error)


def committed_offsets(bootstrap: str) -> list[int]:
    """Where the copier's group stands in `in`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "copier", **LASTING})
    try:
        asked = [TopicPartition("in", partition) for partition in range(PARTITIONS)]
        return [found.offset for found in consumer.committed(asked, END_SECONDS)]
    finally:
        consumer.close()
