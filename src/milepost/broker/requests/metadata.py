"""Metadata (key 3): brokers, topics, and who leads each partition.

Version 0 asks for all topics with an empty list; later versions with null, and an empty list is no topics at all. A topic that is not
there is made when the client allows it (always before version 4) and `auto.create.topics.enable` does. A single broker leads it at once
and answers it as any other; in a cluster it has no leader yet (5 LEADER_NOT_AVAILABLE), and the client asks again. A request makes
MOST_CREATED topics at most: the others are answered as unknown, and clients ask again.

In a cluster it comes from the controller's UpdateMetadata, with the addresses of the client's listener. A broker that has just started, and
has no metadata yet, not even its own, lets the client wait for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.broker.slices import Work, collected, keyed
from milepost.broker.topology.protocols import Failures, PartitionState
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState

NO_ID = bytes(16)
IDS_SINCE = 12  # 10 and 11 have the field, and Kafka refuses to look at it
MOST_CREATED = 100


def handle(request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    broker = context.broker
    view = broker.topology.view
    yield from view.hearing()
    wanted = request.topics
    if wanted and context.version < IDS_SINCE and (yield from has_ids(wanted)):
        return MetadataResponse(topics=(yield from collected(refused(topic) for topic in wanted)))
    if wanted is None or (context.version == 0 and not wanted):
        topics = yield from every_topic(context)
    else:
        topics = yield from named_topics(wanted, request, context)
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = authorized_operations.ON_TOPIC
            yield
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in view.brokers(context.listener)
        ],
        cluster_id=broker.cluster.cluster_id,
        controller_id=view.controller_id,
        topics=topics,
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )


def has_ids(wanted: Sequence[MetadataRequest.Topic]) -> Work[bool]:
    for topic in wanted:
        if topic.name is None or topic.topic_id != NO_ID:
            return True
        yield
    return False


def refused(wanted: MetadataRequest.Topic) -> MetadataResponse.Topic:
    return MetadataResponse.Topic(error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id)


def every_topic(context: Context) -> Work[list[MetadataResponse.Topic]]:
    broker, topics = context.broker, []
    for topic in list(broker.cluster.topics.values()):
        if broker.cluster.topics.get(topic.name) is topic:  # it may be deleted meanwhile
            topics.append((yield from describe(topic, context)))
        yield
    return topics


def named_topics(
    wanted: Sequence[MetadataRequest.Topic], request: MetadataRequest, context: Context
) -> Work[list[MetadataResponse.Topic]]:
    broker = context.broker
    # Each once, as in Kafka: a name takes a few bytes, and its answer one for every partition.
    once = (yield from keyed(wanted, attrgetter("name", "topic_id"))).values()
    failures: Failures = {}
    if (context.version < 4 or request.allow_auto_topic_creation) and broker.config.auto_create_topics_enable:
        unknown: list[str] = []
        for topic in once:
            if topic.name is not None and topic.topic_id == NO_ID and topic.name not in broker.cluster.topics:
                unknown.append(topic.name)
            if len(unknown) == MOST_CREATED:
                break
            yield
        if unknown:
            context.goes_on = True
            admin = broker.topology.topics
            failures = yield from admin.in_turn(admin.creating_on_first_use(unknown))
    topics = []
    for topic in once:
        topics.append((yield from answer_topic(topic, context, failures)))
        yield
    return topics


def answer_topic(wanted: MetadataRequest.Topic, context: Context, failures: Failures) -> Work[MetadataResponse.Topic]:
    broker = context.broker
    if wanted.name is None or wanted.topic_id != NO_ID:
        known = broker.cluster.topic_by_id(wanted.topic_id)
        if known is None:
            return MetadataResponse.Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return (yield from describe(known, context))
    failure = failures.get(wanted.name)
    if failure is not None:
        return MetadataResponse.Topic(error_code=failure.code, name=wanted.name)
    topic = broker.cluster.topics.get(wanted.name)
    if topic is not None:
        return (yield from describe(topic, context))
    return MetadataResponse.Topic(error_code=broker.missing_topic(wanted.name), name=wanted.name)


def describe(topic: TopicState, context: Context) -> Work[MetadataResponse.Topic]:
    view, listener = context.broker.topology.view, context.listener
    states = ((number, view.partition(topic, number, listener)) for number in range(topic.partitions))
    partitions = yield from collected(shown(number, state) for number, state in states if state is not None)
    return MetadataResponse.Topic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions)


def shown(number: int, state: PartitionState) -> MetadataResponse.Topic.Partition:
    return MetadataResponse.Topic.Partition(
        error_code=state.error_code,
        partition_index=number,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=list(state.offline),
    )
