"""DescribeQuorum (key 55): who keeps the cluster's metadata, and how far they are; KIP-595, KIP-836, KIP-853.

Kafka's broker alone is its own controller, and so is this one: the leader and the only voter of `__cluster_metadata`, partition 0. That
log is the one of `cluster/solo`, which cannot be fetched; its end is counted in changes since the start. There is no election, so its
epoch is 0. Of anything else, or of more than this partition, it knows nothing (3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.slices import Work
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

TOPIC = "__cluster_metadata"
Topic = DescribeQuorumResponse.Topic
Node = DescribeQuorumResponse.Node


def handle(request: DescribeQuorumRequest, context: Context) -> Work[DescribeQuorumResponse]:
    if not is_for_the_quorum(request):
        return (yield from unknown(request))
    broker = context.broker
    end, now = broker.cluster.change_count, broker.clock.now_ms()
    voter = Topic.Partition.CurrentVoter(
        replica_id=broker.node_id, log_end_offset=end, last_fetch_timestamp=now, last_caught_up_timestamp=now
    )
    found = Topic.Partition(leader_id=broker.node_id, high_watermark=end, current_voters=[voter])
    host, port = broker.advertised(context.listener)
    node = Node(node_id=broker.node_id, listeners=[Node.Listener(name=context.listener, host=host, port=port)])
    return DescribeQuorumResponse(
        topics=[Topic(topic_name=TOPIC, partitions=[found])], nodes=[node] if context.version >= 2 else []
    )


def is_for_the_quorum(request: DescribeQuorumRequest) -> bool:
    """The one partition, and nothing beside it."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    (topic,) = request.topics
    return topic.topic_name == TOPIC and topic.partitions[0].partition_index == 0


def unknown(request: DescribeQuorumRequest) -> Work[DescribeQuorumResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            partitions.append(
                Topic.Partition(partition_index=part.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
            yield
        topics.append(Topic(topic_name=topic.topic_name, partitions=partitions))
        yield
    return DescribeQuorumResponse(topics=topics)
