"""Metadata (key 3): brokers, topics, and who leads each partition.

Version 0 asks for all topics with an empty list; later versions with null, and an empty list is no topics at all. A
topic that is not there is created when the client allows it (always before version 4) and `auto.create.topics.enable`
does; it is then answered as any other, since a single broker leads it at once. A request makes MOST_CREATED topics at most, so
that nobody waits long for it: of the others it is told that they are unknown, and clients ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState
    from milepost.replica.partition import Partition

KEY = 3
NO_ID = bytes(16)
IDS_SINCE = 12  # 10 and 11 have the field, and Kafka refuses to look at it
NO_LEADER = -1
MOST_CREATED = 100


def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    broker = context.broker
    wanted = request.topics
    if wanted and context.version < IDS_SINCE and any(topic.name is None or topic.topic_id != NO_ID for topic in wanted):
        return refuse(wanted, ErrorCode.INVALID_REQUEST)
    if wanted is None or (context.version == 0 and not wanted):
        topics = [describe(topic, broker) for topic in broker.cluster.topics.values()]
    else:
        may_create = (context.version < 4 or request.allow_auto_topic_creation) and broker.config.auto_create_topics_enable
        # Each once, as in Kafka: a name takes a few bytes, and its answer one for every partition.
        once = {(topic.name, topic.topic_id): topic for topic in wanted}.values()
        room = len(broker.cluster.topics) + MOST_CREATED
        topics = [answer_topic(topic, broker, may_create and len(broker.cluster.topics) < room) for topic in once]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = authorized_operations.ON_TOPIC
    host, port = broker.advertised(context.listener)
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=broker.node_id, host=host, port=port)],
        cluster_id=broker.cluster.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )


def refuse(wanted: Sequence[MetadataRequest.Topic], error_code: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataResponse.Topic(error_code=error_code, name=each.name or "", topic_id=each.topic_id) for each in wanted]
    )


def answer_topic(wanted: MetadataRequest.Topic, broker: Broker, may_create: bool) -> MetadataResponse.Topic:
    if wanted.name is None or wanted.topic_id != NO_ID:
        known = broker.cluster.topic_by_id(wanted.topic_id)
        if known is None:
            return MetadataResponse.Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return describe(known, broker)
    topic = broker.cluster.topics.get(wanted.name)
    if topic is not None:
        return describe(topic, broker)
    if not may_create:
        return MetadataResponse.Topic(error_code=broker.missing_topic(wanted.name), name=wanted.name)
    try:
        return describe(create(wanted.name, broker), broker)
    except MilepostError as error:
        return MetadataResponse.Topic(error_code=error.code, name=wanted.name)


def create(name: str, broker: Broker) -> TopicState:
    """A topic as nobody configured it; an internal one as its coordinator needs it."""
    for internal in (broker.offsets_topic, broker.transactions_topic):
        if internal.name == name:
            internal.ensure()
            return broker.cluster.topics[name]
    return broker.create_topic(name)


def describe(topic: TopicState, broker: Broker) -> MetadataResponse.Topic:
    partitions = [
        describe_partition(number, broker.replicas.partition_of(topic.name, number), broker.node_id)
        for number in range(topic.partitions)
    ]
    return MetadataResponse.Topic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions)


def describe_partition(number: int, partition: Partition | None, node_id: int) -> MetadataResponse.Topic.Partition:
    """One that is not here has no leader: a client that saw fewer partitions would take their number for that of the topic."""
    if partition is None:
        return MetadataResponse.Topic.Partition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=NO_LEADER,
            replica_nodes=[node_id],
            offline_replicas=[node_id],
        )
    return MetadataResponse.Topic.Partition(
        partition_index=number,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync_replicas,
    )
