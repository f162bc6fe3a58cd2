"""What the interop tests ask a broker for, through librdkafka: create topics, read them whole, find offsets by time."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.interop.toolchain import unavailable
from tests.waiting import PROCESS_PATIENCE

READ_SECONDS = PROCESS_PATIENCE


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
    for future in admin.create_topics(topics, operation_timeout=READ_SECONDS, request_timeout=READ_SECONDS).values():
        future.result()


def read_topics(bootstrap: str, topics: Iterable[str], *, isolation: str = "read_uncommitted") -> dict[str, list[Received]]:
    """Every record that a consumer gets from partition 0 of each topic, from the first offset to the end (read_committed: to the
    last stable offset). One consumer reads them all: starting one takes longer than reading. librdkafka checks every CRC.
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
    received: dict[str, list[Received]] = {topic: [] for topic in topics}
    unfinished = set(received)
    deadline = time.monotonic() + READ_SECONDS
    try:
        consumer.assign([kafka.TopicPartition(topic, 0, kafka.OFFSET_BEGINNING) for topic in received])
        while unfinished:
            message = consumer.poll(1.0)
            if message is None:
                assert time.monotonic() < deadline, f"after {READ_SECONDS:g} s there is no end of {sorted(unfinished)}"
                continue
            if message.error() is None:
                received[message.topic()].append(as_received(message))
            else:
                assert message.error().code() == kafka.KafkaError._PARTITION_EOF, f"{message.topic()}: {message.error()}"
                unfinished.discard(message.topic())
    finally:
        consumer.close()
    return received


def as_received(message: Any) -> Received:
    headers = tuple(message.headers() or ())
    return Received(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


def offsets_for_times(bootstrap: str, topic: str, timestamps: Iterable[int]) -> list[int]:
    """For each timestamp the first offset whose record is not older; -1 when there is none."""
    kafka = librdkafka()
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "milepost-interop"})
    try:
        asked = [kafka.TopicPartition(topic, 0, timestamp) for timestamp in timestamps]
        return [consumer.offsets_for_times([partition], timeout=READ_SECONDS)[0].offset for partition in asked]
    finally:
        consumer.close()
