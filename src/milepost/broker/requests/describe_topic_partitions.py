"""DescribeTopicPartitions (key 75): topics and who leads their partitions, a page at a time (KIP-966).

Topics come in order of their names, without a list all of them. A page ends after `response_partition_limit` partitions, at most
MAX_PARTITIONS; then the answer has a cursor, the partition the next page begins with, and the client sends it back with the same
list.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.broker.slices import collected, keyed
from milepost.broker.topology.protocols import PartitionState
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

MAX_PARTITIONS = 2000
Cursor = DescribeTopicPartitionsResponse.NextCursor
Topic = DescribeTopicPartitionsResponse.Topic


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> Work[DescribeTopicPartitionsResponse]:
    broker = context.broker
    cursor = request.cursor
    asked = yield from keyed(request.topics, attrgetter("name"))
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return DescribeTopicPartitionsResponse(topics=(yield from collected(refused(topic.name) for topic in request.topics)))
    names = sorted(asked or broker.cluster.topics)
    left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS)
    topics: list[Topic] = []
    for name in names:
        first = 0
        if cursor is not None:
            if name < cursor.topic_name:
                yield
                continue
            first = cursor.partition_index if name == cursor.topic_name else 0
        if not left:
            return page(topics, name, 0)
        found, more = describe(name, first, left, context)
        yield
        topics.append(found)
        left -= len(found.partitions)
        if more:
            return page(topics, name, first + len(found.partitions))
    return DescribeTopicPartitionsResponse(topics=topics)


def refused(name: str) -> Topic:
    return Topic(error_code=ErrorCode.INVALID_REQUEST, name=name)


def page(topics: list[Topic], name: str, partition: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=Cursor(topic_name=name, partition_index=partition))


def describe(name: str, first: int, limit: int, context: Context) -> tuple[Topic, bool]:
    """A topic with at most `limit` of its partitions from `first` on; whether there are more."""
    broker = context.broker
    topic = broker.cluster.topics.get(name)
    if topic is None:
        missing = Topic(
            error_code=broker.missing_topic(name), name=name, topic_authorized_operations=authorized_operations.ON_TOPIC
        )
        return missing, False
    numbers = range(topic.partitions)[first:]
    view = broker.topology.view
    found = Topic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[shown(number, view.partition(topic, number, context.listener)) for number in numbers[:limit]],
        topic_authorized_operations=authorized_operations.ON_TOPIC,
    )
    return found, len(numbers) > limit


def shown(number: int, state: PartitionState | None) -> Topic.Partition:
    known = state or PartitionState(ErrorCode.LEADER_NOT_AVAILABLE)
    return Topic.Partition(
        error_code=known.error_code,
        partition_index=number,
        leader_id=known.leader_id,
        leader_epoch=known.leader_epoch,
        replica_nodes=list(known.replicas),
        isr_nodes=list(known.isr),
        eligible_leader_replicas=[] if known.isr else None,
        last_known_elr=[] if known.isr else None,
        offline_replicas=list(known.offline),
    )
