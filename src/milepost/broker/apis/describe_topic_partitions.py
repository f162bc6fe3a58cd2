"""DescribeTopicPartitions (key 75): topics and who leads their partitions, a page at a time (KIP-966).

Topics come in order of their names, without a list all of them. A page ends after `response_partition_limit` partitions, at most
MAX_PARTITIONS; then the answer has a cursor, the partition the next page begins with, and the client sends it back with the same
list.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

KEY = 75
MAX_PARTITIONS = 2000
NO_LEADER = -1
Cursor = DescribeTopicPartitionsResponse.NextCursor
Topic = DescribeTopicPartitionsResponse.Topic
OnePartition = Callable[[str, int], Topic.Partition]


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> Work[DescribeTopicPartitionsResponse]:
    return answer(request, context.broker, partial(describe_partition, context.broker))


def answer(
    request: DescribeTopicPartitionsRequest, broker: Parts, partition: OnePartition
) -> Work[DescribeTopicPartitionsResponse]:
    """`partition` describes one partition of a topic."""
    cursor = request.cursor
    asked = [topic.name for topic in request.topics]
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return DescribeTopicPartitionsResponse(topics=[Topic(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in asked])
    names = sorted(set(asked) or broker.cluster.topics)
    left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS)
    topics: list[Topic] = []
    for name in names:
        first = 0
        if cursor is not None:
            if name < cursor.topic_name:
                continue
            first = cursor.partition_index if name == cursor.topic_name else 0
        if not left:
            return page(topics, name, 0)
        found, more = describe(name, first, left, broker, partition)
        yield
        topics.append(found)
        left -= len(found.partitions)
        if more:
            return page(topics, name, first + len(found.partitions))
    return DescribeTopicPartitionsResponse(topics=topics)


def page(topics: list[Topic], name: str, partition: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=Cursor(topic_name=name, partition_index=partition))


def describe(name: str, first: int, limit: int, broker: Parts, partition: OnePartition) -> tuple[Topic, bool]:
    """A topic with at most `limit` of its partitions from `first` on; whether there are more."""
    topic = broker.cluster.topics.get(name)
    if topic is None:
        missing = Topic(
            error_code=broker.missing_topic(name), name=name, topic_authorized_operations=authorized_operations.ON_TOPIC
        )
        return missing, False
    numbers = range(topic.partitions)[first:]
    found = Topic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[partition(name, number) for number in numbers[:limit]],
        topic_authorized_operations=authorized_operations.ON_TOPIC,
    )
    return found, len(numbers) > limit


def describe_partition(broker: Parts, topic: str, number: int) -> Topic.Partition:
    partition = broker.replicas.partition_of(topic, number)
    if partition is None:
        return Topic.Partition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=NO_LEADER,
            replica_nodes=[broker.node_id],
            offline_replicas=[broker.node_id],
        )
    return Topic.Partition(
        partition_index=number,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync_replicas,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
