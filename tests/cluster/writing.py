"""Clients of a cluster of processes: a producer that counts what was acknowledged, a reader of everything, a look at replicas' files."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from milepost.log.open import open_log
from tests.cluster.processes import ClusterProcesses

HEALED_SECONDS = 30.0


def create_topic(cluster: ClusterProcesses, name: str, partitions: int = 3, factor: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(name, partitions, factor, config={key.replace("_", "."): value for key, value in config.items()})
    for future in admin.create_topics([topic], operation_timeout=20).values():
        future.result()
    # The controller knows it; the others are told at the same moment, more or less.
    for broker in cluster.brokers.values():
        if broker.is_running:
            until(lambda broker=broker: name in metadata(broker.address).topics, f"{name} is known to broker {broker.broker_id}")


def metadata(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    return {number: part.leader for number, part in metadata(bootstrap).topics[topic].partitions.items()}


def in_sync(bootstrap: str, topic: str) -> dict[int, list[int]]:
    return {number: sorted(part.isrs) for number, part in metadata(bootstrap).topics[topic].partitions.items()}


def until(is_so: Callable[[], object], what: str, seconds: float = HEALED_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


class Refusals(logging.Handler):
    """What a producer says of batches that failed, and of the epochs that it began for that."""

    _REFUSED = re.compile(
        r"/(\d+): (\S+ \[\d+\]): MessageSet with (\d+) message\(s\) \(MsgId \d+, BaseSeq (\d+)\) encountered error: (.*)"
    )

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "encountered error" in text or "epoch bump" in text:
            self.lines.append(f"{record.created:.3f} {text}")

    def logger(self) -> logging.Logger:
        made = logging.Logger("refusals", logging.DEBUG)
        made.addHandler(self)
        return made

    def out_of_order(self, *, even_if_overtaken: bool = True) -> set[int]:
        """The brokers that said that a batch is missing: the producer then begins a new epoch for all its partitions.

        Overtaken is a batch that the former leader has not answered yet when librdkafka hears of the next one, and sends that one the
        batch behind it. The next one cannot know where it is.
        """
        error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER).str()
        refused = [found.groups() for line in self.lines if (found := self._REFUSED.search(line))]
        ends = {(broker, partition, int(sequence) + int(count)) for broker, partition, count, sequence, _ in refused}

        def is_overtaken(broker: str, partition: str, sequence: int) -> bool:
            return any(other != broker and (part, end) == (partition, sequence) for other, part, end in ends)

        return {
            int(broker)
            for broker, partition, _, sequence, text in refused
            if text.startswith(error) and (even_if_overtaken or not is_overtaken(broker, partition, int(sequence)))
        }


class Writer:
    """Produces numbered values with acks=all and idempotence on a thread, until it is stopped; `acked` has what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, pause: float = 0.001):
        self.topic = topic
        self.partitions = partitions
        self.pause = pause
        self.acked: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.sent = 0
        self.longest_wait = 0.0
        """Seconds from sending a value to its acknowledgement."""
        self.refusals = Refusals()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "delivery.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 500,
                "debug": "eos,msg",
            },
            logger=self.refusals.logger(),
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.is_set():
            value = f"value-{self.sent}"
            self._producer.produce(self.topic, value.encode(), partition=self.sent % self.partitions, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
            time.sleep(self.pause)

    def _delivered(self, error: Any, message: Any) -> None:
        value = message.value().decode()
        if error is None:
            self.acked.append(value)
            self.longest_wait = max(self.longest_wait, message.latency())
        else:
            self.failed.append((value, str(error)))

    def wait_for(self, more: int, seconds: float = HEALED_SECONDS) -> None:
        """Until so many more are acknowledged."""
        goal = len(self.acked) + more
        until(lambda: len(self.acked) >= goal, f"{more} more acknowledged, {len(self.acked)} are", seconds)

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert left == 0, f"{left} values have no outcome"


def read_all(bootstrap: str, topic: str, partitions: int) -> Counter[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: Counter[str] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + HEALED_SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"read {sum(found.values())}, ends of {ended}"
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found[message.value().decode()] += 1
            else:
                ended.add(message.partition())
    consumer.close()
    return found


def ensure_nothing_lost(writer: Writer, found: Counter[str], kafkas: Collection[int] = ()) -> None:
    """Everything acknowledged is there once, and nothing is there twice.

    Unless one of Kafka's own brokers told the producer that a batch is missing (docs/deviations.md): ours never do.
    """
    lost = [value for value in writer.acked if value not in found]
    twice = [value for value, times in found.items() if times > 1]
    said = writer.refusals.out_of_order() & set(kafkas)
    assert not lost, f"{len(lost)} of {len(writer.acked)} acknowledged are lost: {lost[:5]}"
    mistaken = writer.refusals.out_of_order(even_if_overtaken=False)
    assert mistaken <= set(kafkas), f"brokers {mistaken} said that a batch is missing: {writer.refusals.lines}"
    assert not twice or said, f"{len(twice)} are there twice: {twice[:5]}; {writer.refusals.lines}"


def log_bytes(data: Path, partition: str) -> bytes:
    """All `.log` bytes of a replica, in order."""
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))


def ensure_replicas_equal(cluster: ClusterProcesses, topic: str, partitions: int) -> None:
    """After all have stopped: the replicas of each partition have the same bytes as far as each of them goes, and the same end."""
    for number in range(partitions):
        name = f"{topic}-{number}"
        copies = {
            broker.broker_id: log_bytes(broker.data, name) for broker in cluster.brokers.values() if (broker.data / name).is_dir()
        }
        shortest = min(map(len, copies.values()))
        assert len({copy[:shortest] for copy in copies.values()}) == 1, (
            f"{name}: replicas differ, sizes {sorted(map(len, copies.values()))}"
        )
        ends = {}
        for broker_id in copies:
            with open_log(cluster.brokers[broker_id].data / name) as log:
                ends[broker_id] = log.end_offset
        assert len(set(ends.values())) == 1, f"{name}: ends {ends}"


def ensure_healed(cluster: ClusterProcesses, writer: Writer) -> None:
    """All three are in sync again, nothing is lost, and the files of the replicas are equal. Ends the brokers."""
    until(lambda: all(isr == [1, 2, 3] for isr in in_sync(cluster.bootstrap, writer.topic).values()), "all replicas in sync")
    ensure_nothing_lost(writer, read_all(cluster.bootstrap, writer.topic, writer.partitions))
    # Without producers everybody has everything; a stop in turn moves leaders and writes nothing.
    assert [broker.stop() for broker in cluster.brokers.values()] == [0, 0, 0]
    ensure_replicas_equal(cluster, writer.topic, writer.partitions)
