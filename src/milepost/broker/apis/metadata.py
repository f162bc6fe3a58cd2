"""Metadata (key 3): brokers, topics, and who leads each partition.

Version 0 asks for all topics with an empty list; later versions with null, and an empty list is no topics at all. A
topic that is not there is created when the client allows it (always before version 4) and `auto.create.topics.enable`
does; it is then answered as any other, since a single broker leads it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context
    from milepost.cluster.solo import TopicState

KEY = 3
NO_ID = bytes(16)


def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    broker = context.broker
    wanted = request.topics
    if wanted is None or (context.version == 0 and not wanted):
        topics = [describe(topic, broker) for topic in broker.cluster.topics.values()]
    else:
        may_create = (context.version < 4 or request.allow_auto_topic_creation) and broker.config.auto_create_topics_enable
        topics = [answer_topic(topic, broker, may_create) for topic in wanted]
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
    partitions = []
    for partition in broker.partitions_of(topic):
        partitions.append(
            MetadataResponse.Topic.Partition(
                partition_index=partition.name.partition,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.in_sync_replicas,
            )
        )
    return MetadataResponse.Topic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions)
