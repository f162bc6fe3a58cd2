"""What the benchmarks ask of a broker besides load: topics, producer ids, log ends. Through milepost's own client; both understand it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from benchmarks.broker.brokers import Broker
from milepost.client.connection import Connection
from milepost.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
)

LATEST = -1
PATIENCE = 120.0


class Served(Protocol):
    """A broker that is asked: one alone, or one of a cluster."""

    port: int

    def connect(self, timeout: float = ...) -> Connection: ...


def create_topics(broker: Broker, names: Sequence[str], partitions: int) -> None:
    topics = [CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    with broker.connect() as connection:
        response = connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
    failed = [row for row in response.topics if row.error_code]
    assert not failed, f"{broker.name}: creating {failed[0].name}: error {failed[0].error_code}"
    # Kafka answers before the partitions are there.
    for number in range(partitions):
        wait_until(
            lambda number=number: end_offset(broker, names[-1], number) == 0, f"{broker.name}: {names[-1]} does not come up"
        )


def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic and wait until its files are gone: what is still dirty then need not be written."""
    with broker.connect() as connection:
        row = connection.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)], timeout_ms=60_000)).responses[0]
    assert not row.error_code, f"{broker.name}: deleting {name}: error {row.error_code}"

    def is_gone() -> bool:
        return not any(entry.name.startswith(f"{name}-") for entry in broker.data.iterdir())

    wait_until(is_gone, f"{broker.name}: {name} stays on disk")
    settle()


def topic_id(broker: Served, topic: str) -> bytes:
    with broker.connect() as connection:
        row = connection.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])).topics[0]
    assert not row.error_code, f"{topic}: error {row.error_code}"
    return bytes(row.topic_id)


def end_offset(broker: Served, topic: str, partition: int) -> int:
    """The log end, or -1 while the partition is not served."""
    part = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=LATEST, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=[part])])
    with broker.connect() as connection:
        row = connection.ask(request).topics[0].partitions[0]
    return -1 if row.error_code else int(row.offset)


def producer_id(broker: Served) -> int:
    given = -1

    def is_given() -> bool:
        nonlocal given
        with broker.connect() as connection:
            response = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        given = response.producer_id
        return not response.error_code

    wait_until(is_given, f"{broker.port}: no producer id")
    return given


def wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{complaint} within {PATIENCE:g} s")
        time.sleep(0.01)


def settle() -> None:
    """The same page cache for whoever comes next: nothing dirty."""
    os.sync()
