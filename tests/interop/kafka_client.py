"""What the interop tests ask a broker for, through librdkafka: create a topic, read a whole partition."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

from tests.interop.kafka_harness import unavailable

READ_SECONDS = 60


@dataclass(frozen=True)
class Received:
    """One record as the client got it; the same fields as `milepost.record.records.Record`, without the sequence."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def librdkafka(module: str = "confluent_kafka") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        unavailable("confluent-kafka is not installed: the tests read the broker through it")


def create_topics(bootstrap: str, *names: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin_module = librdkafka("confluent_kafka.admin")
    admin = admin_module.AdminClient({"bootstrap.servers": bootstrap})
    topics = [admin_module.NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {}) for name in names]
    for future in admin.create_topics(topics, operation_timeout=30).values():
        future.result()


def read_partition(bootstrap: str, topic: str, partition: int = 0, *, isolation: str = "read_uncommitted") -> list[Received]:
    """Every record that a consumer gets, from the first offset to the end (the last stable offset when read_committed).

    librdkafka checks each batch's CRC itself (check.crcs).
    """
    kafka = librdkafka()
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "milepost-interop",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "check.crcs": True,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    received: list[Received] = []
    try:
        consumer.assign([kafka.TopicPartition(topic, partition, kafka.OFFSET_BEGINNING)])
        deadline = time.monotonic() + READ_SECONDS
        while True:
            message = consumer.poll(1.0)
            if message is None:
                assert time.monotonic() < deadline, f"{topic}-{partition}: {len(received)} records in {READ_SECONDS} s, no end"
                continue
            if message.error() is not None and message.error().code() == kafka.KafkaError._PARTITION_EOF:
                return received
            assert message.error() is None, f"{topic}-{partition} after {len(received)} records: {message.error()}"
            received.append(
                Received(message.offset(), message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ()))
            )
    finally:
        consumer.close()


def offset_for_time(bootstrap: str, topic: str, timestamp: int, partition: int = 0) -> int:
    """The first offset whose record is not older than `timestamp`; -1 when there is none."""
    kafka = librdkafka()
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "milepost-interop"})
    try:
        [found] = consumer.offsets_for_times([kafka.TopicPartition(topic, partition, timestamp)], timeout=READ_SECONDS)
        assert found.error is None, f"{topic}-{partition}: {found.error}"
        offset: int = found.offset
        return offset
    finally:
        consumer.close()
