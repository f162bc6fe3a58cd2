"""DescribeProducers (key 61): who writes to a partition, and where its open transaction begins. The tool against hanging transactions.

A partition that is named again is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.log.producer_state.producer_entry import ProducerEntry

TopicAnswer = DescribeProducersResponse.Topic
PartitionAnswer = TopicAnswer.Partition
Producer = PartitionAnswer.ActiveProducer


def handle(request: DescribeProducersRequest, context: Context) -> Work[DescribeProducersResponse]:
    topics: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield None
    answers = []
    for name, indexes in topics.items():
        partitions = []
        for index in indexes:
            partitions.append((yield from describe(TopicPartition(name, index), context)))
            yield None
        answers.append(TopicAnswer(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=answers)


def describe(name: TopicPartition, context: Context) -> Work[PartitionAnswer]:
    partition = context.broker.replicas.partition(name)
    if partition is None:
        return PartitionAnswer(partition_index=name.partition, error_code=missing(name, context))
    active = []
    for entry in list(partition.log.producers.producers.values()):
        active.append(producer(entry))
        yield None
    return PartitionAnswer(partition_index=name.partition, error_code=ErrorCode.NONE, active_producers=active)


def missing(name: TopicPartition, context: Context) -> int:
    """6 where other brokers have the partition: the tool asks its leader then."""
    error_code = context.broker.missing_partition(name)
    return context.broker.missing_topic(name.topic) if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error_code


def producer(entry: ProducerEntry) -> Producer:
    start = entry.current_txn_first_offset
    return Producer(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=-1 if start is None else start,
    )
