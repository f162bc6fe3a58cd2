"""Clients of a cluster of processes: a producer that counts what was acknowledged, a reader of everything, a look at replicas' files."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from milepost.log.open import open_log
from tests.cluster.asking import metadata, until
from tests.cluster.processes import ClusterProcesses
from tests.waiting import PROCESS_PATIENCE

# While somebody is missed just now, or another controller is elected; unknown is what became of it when the session of one ended.
PASSING = {
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.UNKNOWN,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}


def create_topic(cluster: ClusterProcesses, name: str, partitions: int = 3, factor: int = 3, **config: str) -> None:
    topic = NewTopic(name, partitions, factor, config={key.replace("_", "."): value for key, value in config.items()})
    may_be_there = False

    def is_made() -> bool:
        nonlocal may_be_there
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        try:
            admin.create_topics([topic], operation_timeout=60)[name].result()
        except KafkaException as refused:
            code = refused.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS and may_be_there:
                return True
            if code not in PASSING or factor > len(cluster.brokers):
                raise
            may_be_there = True
            return False
        return True

    until(is_made, f"{name} is made")
    # The controller knows it; the others are told at the same moment, more or less.
    for broker in cluster.running:
        until(lambda broker=broker: name in metadata(broker.address).topics, f"{name} is known to broker {broker.broker_id}")


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

    MOST_OPEN = 5000
    """Without an outcome: a cluster that is slower than its writer is waited for."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, pause: float = 0.001):
        self.topic = topic
        self.partitions = partitions
        self.pause = pause
        self.acked: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.sent = 0
        self.refusals = Refusals()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "delivery.timeout.ms": 300_000,
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
            if self.sent - len(self.acked) - len(self.failed) >= self.MOST_OPEN:
                self._producer.poll(0.05)
                continue
            value = f"value-{self.sent}"
            self._producer.produce(self.topic, value.encode(), partition=self.sent % self.partitions, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
            time.sleep(self.pause)

    def _delivered(self, error: Any, message: Any) -> None:
        value = message.value().decode()
        if error is None:
            self.acked.append(value)
        else:
            self.failed.append((value, str(error)))

    def wait_for(self, more: int, seconds: float = PROCESS_PATIENCE) -> None:
        """Until so many more are acknowledged."""
        before = len(self.acked)
        until(lambda: len(self.acked) >= before + more, f"{more} more acknowledged, after {before}", seconds)

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if kind is not None:
            self._producer.purge()
        left = self._producer.flush(PROCESS_PATIENCE)
        assert left == 0, f"{left} values have no outcome"


def ensure_transactions_are_seen_as_a_whole(cluster: ClusterProcesses, transactional_id: str, topic: str) -> None:
    """Over three partitions; only what was committed is read."""
    create_topic(cluster, topic, 3, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(PROCESS_PATIENCE)
    for outcome in ("committed", "aborted", "committed"):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(topic, outcome.encode(), partition=number % 3)
        # librdkafka ends a transaction whose partitions are still being added, which coordinators refuse.
        producer.flush(PROCESS_PATIENCE)
        if outcome == "committed":
            producer.commit_transaction(PROCESS_PATIENCE)
        else:
            producer.abort_transaction(PROCESS_PATIENCE)
    written = {"committed": 60}
    found = read_all(cluster.bootstrap, topic, 3, written)
    assert found == written, f"read from {topic}: {dict(found)}"


def read_all(bootstrap: str, topic: str, partitions: int, wanted: Mapping[str, int] | Iterable[str] = ()) -> Counter[str]:
    """Everything to the end, and until what is `wanted` has come.

    Where the end is, a new leader hears a moment after it leads, and of a transaction a moment after it was answered.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    missing = Counter(wanted)
    found: Counter[str] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + PROCESS_PATIENCE
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        while (len(ended) < partitions or missing - found) and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                if message.error() is None:
                    found[message.value().decode()] += 1
                    ended.discard(message.partition())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
    assert len(ended) == partitions, f"read {sum(found.values())}, ends of {ended}"
    return found


def ensure_nothing_lost(writer: Writer, found: Counter[str], kafkas: Collection[int] = ()) -> None:
    """Everything acknowledged is there once, and nothing is there twice.

    Unless one of Kafka's own brokers told the producer that a batch is missing (docs/deviations.md): ours say so only of a batch that
    overtook the one before it, which the producer then sends again, after that one.
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
    cluster.wait_until_in_sync(writer.topic)
    ensure_nothing_lost(writer, read_all(cluster.bootstrap, writer.topic, writer.partitions, writer.acked))
    # Without producers everybody has everything; a stop in turn moves leaders and writes nothing.
    assert [broker.stop() for broker in cluster.brokers.values()] == [0, 0, 0]
    ensure_replicas_equal(cluster, writer.topic, writer.partitions)
