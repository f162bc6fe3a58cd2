"""Metadata (key 3) in a cluster: what the controller told of brokers, topics and leaders.

A topic that is not there is made when the client allows it and `auto.create.topics.enable` does. It has no leader yet: 5
LEADER_NOT_AVAILABLE, and the client asks again; a request makes MOST_CREATED of them at most. Addresses are those of the listener that
the client came by.

A broker that has just started, and has heard of nobody yet, not even of itself, lets the client wait for a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker import authorized_operations
from milepost.broker.apis.metadata import IDS_SINCE, MOST_CREATED, NO_ID, refuse
from milepost.broker.slices import Work, collected
from milepost.cluster.view import TopicState
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import MetadataRequest, MetadataResponse
from milepost.replica.metadata import NO_LEADER, PartitionInfo
from milepost.topic_partition import topic_name_fault

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 3
BROKERS = "brokers"
"""What to wait for in the purgatory until the controller has said who is alive."""
PATIENCE_SECONDS = 5.0
Topic = MetadataResponse.Topic


def handle(request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    broker = cast("ClusterParts", context.broker)
    if not broker.cluster.brokers:
        purgatory = broker.replicas.purgatory
        yield lambda resume: purgatory.wait([BROKERS], lambda key: bool(broker.cluster.brokers), resume, PATIENCE_SECONDS)
    wanted = request.topics
    if wanted and context.version < IDS_SINCE and any(topic.name is None or topic.topic_id != NO_ID for topic in wanted):
        return refuse(wanted, ErrorCode.INVALID_REQUEST)
    if wanted is None or (context.version == 0 and not wanted):
        topics = []
        for topic in list(broker.cluster.topics.values()):
            topics.append((yield from describe(topic, broker, context.listener)))
            yield
    else:
        may_create = (context.version < 4 or request.allow_auto_topic_creation) and broker.config.auto_create_topics_enable
        once = {(topic.name, topic.topic_id): topic for topic in wanted}.values()
        topics = []
        made = 0
        for each in once:
            found = yield from answer_topic(each, broker, context.listener, may_create and made < MOST_CREATED)
            made += found.error_code == ErrorCode.LEADER_NOT_AVAILABLE and not found.partitions
            topics.append(found)
            yield
    if request.include_topic_authorized_operations:
        for described in topics:
            described.topic_authorized_operations = authorized_operations.ON_TOPIC
            yield
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(node_id=each.broker_id, host=end.host, port=end.port, rack=each.rack)
            for each, end in broker.neighbours(context.listener)
        ],
        cluster_id=broker.cluster.cluster_id,
        controller_id=broker.controller_id,
        topics=topics,
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )


def answer_topic(wanted: MetadataRequest.Topic, broker: ClusterParts, listener: str, may_create: bool) -> Work[Topic]:
    if wanted.name is None or wanted.topic_id != NO_ID:
        known = broker.cluster.topic_by_id(wanted.topic_id)
        if known is None:
            return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return (yield from describe(known, broker, listener))
    topic = broker.cluster.topics.get(wanted.name)
    if topic is not None:
        return (yield from describe(topic, broker, listener))
    if not may_create or topic_name_fault(wanted.name):
        return Topic(error_code=broker.missing_topic(wanted.name), name=wanted.name)
    try:
        create(wanted.name, broker)
    except MilepostError as error:
        return Topic(error_code=error.code, name=wanted.name)
    return Topic(error_code=ErrorCode.LEADER_NOT_AVAILABLE, name=wanted.name)


def create(name: str, broker: ClusterParts) -> None:
    """A topic as nobody configured it; an internal one as its coordinator needs it."""
    for internal in (broker.offsets_topic, broker.transactions_topic):
        if internal.name == name:
            broker.topics.create_internal(internal)
            return
    broker.ensure_new_topic(name)
    broker.topics.create_soon(name, broker.config.num_partitions, broker.config.default_replication_factor, {})


def describe(topic: TopicState, broker: ClusterParts, listener: str) -> Work[Topic]:
    known = sorted(broker.cluster.metadata.topics.get(topic.name, {}).items())
    partitions = yield from collected(describe_partition(number, each, broker, listener) for number, each in known)
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
    )


def describe_partition(number: int, known: PartitionInfo, broker: ClusterParts, listener: str) -> Topic.Partition:
    leader = broker.cluster.brokers.get(known.leader)
    is_led = leader is not None and leader.endpoint(listener) is not None
    return Topic.Partition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=known.leader if is_led else NO_LEADER,
        leader_epoch=known.leader_epoch,
        replica_nodes=list(known.replicas),
        isr_nodes=list(known.isr),
        offline_replicas=list(known.offline),
    )
