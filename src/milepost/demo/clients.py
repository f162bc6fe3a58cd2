"""Who talks to the broker: confluent-kafka if it is installed, and milepost's own client if not.

Both do the same: produce the visits, then read the topic from its start in a group and commit. Only librdkafka's consumer is a member
of its group, though; milepost's own takes all partitions itself.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from typing import Any, Protocol

from milepost.client.cluster import Cluster
from milepost.client.consumer import Consumer
from milepost.client.offsets import EARLIEST, LATEST, commit, ends, list_offsets
from milepost.client.producer import Producer
from milepost.errors import BrokerUnavailable
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

SECONDS = 30.0
Counts = dict[int, int]
"""How many records of each partition."""


class Client(Protocol):
    name: str

    def produce(self, topic: str, records: Sequence[Record]) -> None: ...

    def consume(self, topic: str, group: str, total: int) -> Counts:
        """Read `total` records in a group, and commit."""
        ...

    def offset_for(self, topic: str, partition: int, time_ms: int) -> int: ...


def client_of(bootstrap_servers: str) -> Client:
    if importlib.util.find_spec("confluent_kafka") is not None:
        return ConfluentClient(bootstrap_servers)
    return OwnClient(bootstrap_servers)


def fail_after(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise BrokerUnavailable(f"{what}: not done after {SECONDS:.0f} seconds")


class ConfluentClient:
    def __init__(self, bootstrap_servers: str):
        import confluent_kafka

        self._kafka: Any = confluent_kafka
        # A broker that is gone at the end is nothing to talk about.
        self._settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self.name = f"confluent-kafka {confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def produce(self, topic: str, records: Sequence[Record]) -> None:
        # As Java's producer: the same visitor goes to the same partition, whoever writes.
        producer = self._kafka.Producer({**self._settings, "partitioner": "murmur2_random", "enable.idempotence": True})
        for record in records:
            producer.produce(topic, record.value, record.key, timestamp=record.timestamp)
        if producer.flush(SECONDS):
            raise BrokerUnavailable(f"producing to {topic}: not done after {SECONDS:.0f} seconds")

    def consume(self, topic: str, group: str, total: int) -> Counts:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = self._kafka.Consumer({**self._settings, **settings})
        consumer.subscribe([topic])
        counts: Counts = {}
        deadline = time.monotonic() + SECONDS
        while sum(counts.values()) < total:
            fail_after(deadline, f"consuming {topic}")
            for message in consumer.consume(total, timeout=0.2):
                if message.error() is None:
                    counts[message.partition()] = counts.get(message.partition(), 0) + 1
        consumer.commit(asynchronous=False)
        consumer.close()
        return counts

    def offset_for(self, topic: str, partition: int, time_ms: int) -> int:
        consumer = self._kafka.Consumer({**self._settings, "group.id": "lookup"})
        (found,) = consumer.offsets_for_times([self._kafka.TopicPartition(topic, partition, time_ms)], SECONDS)
        consumer.close()
        offset: int = found.offset
        return offset


class OwnClient:
    name = "milepost's own client (confluent-kafka is not installed)"

    def __init__(self, bootstrap_servers: str):
        self._bootstrap_servers = bootstrap_servers

    def produce(self, topic: str, records: Sequence[Record]) -> None:
        with Cluster(self._bootstrap_servers) as cluster, Producer(cluster) as producer:
            for record in records:
                producer.send(topic, record.value, key=record.key, timestamp=record.timestamp)

    def consume(self, topic: str, group: str, total: int) -> Counts:
        with Cluster(self._bootstrap_servers) as cluster:
            partitions = [TopicPartition(topic, part.partition) for part in cluster.topic(topic).partitions]
            counts: Counts = {}
            deadline = time.monotonic() + SECONDS
            with Consumer(cluster, ends(cluster, partitions, EARLIEST)) as consumer:
                while sum(counts.values()) < total:
                    fail_after(deadline, f"consuming {topic}")
                    for partition, records in consumer.poll(1).items():
                        counts[partition.partition] = counts.get(partition.partition, 0) + len(records)
            commit(cluster, group, ends(cluster, partitions, LATEST))
        return counts

    def offset_for(self, topic: str, partition: int, time_ms: int) -> int:
        with Cluster(self._bootstrap_servers) as cluster:
            name = TopicPartition(topic, partition)
            found = list_offsets(cluster, {name: time_ms})[name]
        return -1 if found is None else found.offset
