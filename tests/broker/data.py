"""Batches that are produced and fetched over the wire."""

from __future__ import annotations

from milepost.protocol.messages import (
    FetchRequest,
    ProduceRequest,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire

NOW = 1_700_000_000_000


def batch(*values: bytes, **settings) -> bytes:
    return build_batch([Record(i, NOW + i, b"k", value) for i, value in enumerate(values)], base_offset=0, **settings)


def produce(
    wire: Wire, data: bytes, *, topic: str = "t", partition: int = 0, acks: int = -1, version: int = 9, transactional_id=None
):
    part = ProduceRequest.TopicData.PartitionData(index=partition, records=data)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=60_000,
        topic_data=[ProduceRequest.TopicData(name=topic, partition_data=[part])],
    )
    return wire.ask(request, version).responses[0].partition_responses[0]


def fetch_request(
    offset: int, *, topic: str = "t", partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1, **fields
) -> FetchRequest:
    limits = {"partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20)}
    part = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, **limits)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[FetchRequest.Topic(topic=topic, partitions=[part])], **fields
    )


def fetch(wire: Wire, offset: int, version: int = 11, **fields):
    return wire.ask(fetch_request(offset, **fields), version).responses[0].partitions[0]


def values(records) -> list[bytes | None]:
    return [record.value for each in iter_batches(bytes(records)) for record in each.records()]
