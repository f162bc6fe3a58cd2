"""Metadata (key 3): brokers, topics, and who leads each partition.

Version 0 asks for all topics with an empty list; later versions with null, and an empty list is no topics at all. A
topic that is not there is created when the client allows it (always before version 4) and `auto.create.topics.enable`
does; it is then answered as any other, since a single broker leads it at once. A request makes MOST_CREATED topics at most: of the
others it is told that they are unknown, and clients ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.broker.slices import Work, collected
from milepost.broker.topic_changes import Failures, NewTopic
from milepost.broker.topic_errors import colliding
from milepost.cluster.view import metric_name
from milepost.config.topic import LogConfig
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.cluster.view import TopicState
    from milepost.replica.partition import Partition

KEY = 3
NO_ID = bytes(16)
IDS_SINCE = 12  # 10 and 11 have the field, and Kafka refuses to look at it
NO_LEADER = -1
MOST_CREATED = 100


def handle(request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    broker = context.broker
    wanted = request.topics
    if wanted and context.version < IDS_SINCE and any(topic.name is None or topic.topic_id != NO_ID for topic in wanted):
        return refuse(wanted, ErrorCode.INVALID_REQUEST)
    if wanted is None or (context.version == 0 and not wanted):
        topics = yield from every_topic(broker)
    else:
        topics = yield from named_topics(wanted, request, context)
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = authorized_operations.ON_TOPIC
            yield
    host, port = broker.advertised(context.listener)
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=broker.node_id, host=host, port=port, rack=broker.config.broker_rack)],
        cluster_id=broker.cluster.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )


def refuse(wanted: Sequence[MetadataRequest.Topic], error_code: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[MetadataResponse.Topic(error_code=error_code, name=each.name or "", topic_id=each.topic_id) for each in wanted]
    )


def every_topic(broker: Parts) -> Work[list[MetadataResponse.Topic]]:
    topics = []
    for topic in list(broker.cluster.topics.values()):
        if broker.cluster.topics.get(topic.name) is topic:  # it may be deleted meanwhile
            topics.append((yield from describe(topic, broker)))
        yield
    return topics


def named_topics(
    wanted: Sequence[MetadataRequest.Topic], request: MetadataRequest, context: Context
) -> Work[list[MetadataResponse.Topic]]:
    broker = context.broker
    # Each once, as in Kafka: a name takes a few bytes, and its answer one for every partition.
    once = {(topic.name, topic.topic_id): topic for topic in wanted}.values()
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
            failures = yield from broker.topic_changes.turn.of(creating(unknown, broker))
    topics = []
    for topic in once:
        topics.append((yield from answer_topic(topic, broker, failures)))
        yield
    return topics


def creating(names: Sequence[str], broker: Parts) -> Work[Failures]:
    """Topics as nobody configured them; an internal one as its coordinator needs it."""
    failures: Failures = {}
    new: dict[str, NewTopic] = {}
    internal = {topic.name: topic for topic in (broker.offsets_topic, broker.transactions_topic)}
    for name in names:
        if name in broker.cluster.topics:
            continue  # somebody else made it while this one waited
        try:
            broker.ensure_new_topic(name)
            if metric_name(name) in new:
                raise colliding(name, new[metric_name(name)].name)
        except MilepostError as error:
            failures[name] = error
            continue
        own = internal.get(name)
        configs = own.configs if own else {}
        count = own.partition_count if own else broker.config.num_partitions
        new[metric_name(name)] = NewTopic(name, count, configs, LogConfig.parse(configs, broker.config))
        yield
    failures.update((yield from broker.topic_changes.creating(list(new.values()))))
    return failures


def answer_topic(wanted: MetadataRequest.Topic, broker: Parts, failures: Failures) -> Work[MetadataResponse.Topic]:
    if wanted.name is None or wanted.topic_id != NO_ID:
        known = broker.cluster.topic_by_id(wanted.topic_id)
        if known is None:
            return MetadataResponse.Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return (yield from describe(known, broker))
    failure = failures.get(wanted.name)
    if failure is not None:
        return MetadataResponse.Topic(error_code=failure.code, name=wanted.name)
    topic = broker.cluster.topics.get(wanted.name)
    if topic is not None:
        return (yield from describe(topic, broker))
    return MetadataResponse.Topic(error_code=broker.missing_topic(wanted.name), name=wanted.name)


def describe(topic: TopicState, broker: Parts) -> Work[MetadataResponse.Topic]:
    partitions = yield from collected(
        describe_partition(number, broker.replicas.partition_of(topic.name, number), broker.node_id)
        for number in range(topic.partitions)
    )
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
