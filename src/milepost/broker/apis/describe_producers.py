"""DescribeProducers (key 61): who writes to a partition, and where its open transaction begins. The tool against hanging transactions.

A partition that is named again is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.log.producer_entry import ProducerEntry

KEY = 61
TopicAnswer = DescribeProducersResponse.Topic
PartitionAnswer = TopicAnswer.Partition
Producer = PartitionAnswer.ActiveProducer


def handle(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    topics: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicAnswer(name=name, partitions=[describe(TopicPartition(name, index), context) for index in indexes])
            for name, indexes in topics.items()
        ]
    )


def describe(name: TopicPartition, context: Context) -> PartitionAnswer:
    partition = context.broker.replicas.partition(name)
    if partition is None:
        return PartitionAnswer(partition_index=name.partition, error_code=context.broker.missing_topic(name.topic))
    entries = partition.log.producers.producers.values()
    return PartitionAnswer(
        partition_index=name.partition, error_code=ErrorCode.NONE, active_producers=[producer(entry) for entry in entries]
    )


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
