"""What tests of topics ask for again and again: create one, fill it, look at it."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire

Wanted = CreateTopicsRequest.Topic


def wanted(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> Wanted:
    """A topic to create; `retention_ms="5"` sets retention.ms."""
    settings = [Wanted.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return Wanted(name=name, num_partitions=partitions, replication_factor=factor, configs=settings)


def create(wire: Wire, *topics: Wanted) -> list[bytes]:
    """Topics that must come into being; their ids."""
    response = wire.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=60_000), 7)
    assert [(topic.name, topic.error_message) for topic in response.topics] == [(topic.name, None) for topic in topics]
    return [topic.topic_id for topic in response.topics]


def delete(wire: Wire, *names: str) -> None:
    """Topics that must go."""
    named = [DeleteTopicsRequest.Topic(name=name) for name in names]
    response = wire.ask(DeleteTopicsRequest(topics=named, timeout_ms=60_000), 6)
    assert [(topic.name, topic.error_code) for topic in response.responses] == [(name, 0) for name in names]


def produce(wire: Wire, topic: str, values: Sequence[bytes], partition: int = 0) -> int:
    """Append one batch; its first offset."""
    batch = build_batch([Record(offset, 1000 + offset, b"key", value) for offset, value in enumerate(values)], base_offset=0)
    data = ProduceRequest.TopicData
    request = ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[data(name=topic, partition_data=[data.PartitionData(index=partition, records=memoryview(batch))])],
    )
    answer = wire.ask(request, 9).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    return answer.base_offset


def metadata(wire: Wire, *names: str) -> list[MetadataResponse.Topic]:
    """The topics of these names, or all; none is created."""
    topics = [MetadataRequest.Topic(name=name) for name in names] if names else None
    return wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics


def offset(wire: Wire, topic: str, timestamp: int, partition: int = 0) -> int:
    """-2 for the start of the log, -1 for its end."""
    asked = ListOffsetsRequest.Topic
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[asked(name=topic, partitions=[asked.Partition(partition_index=partition, timestamp=timestamp)])],
    )
    return wire.ask(request, 7).topics[0].partitions[0].offset
