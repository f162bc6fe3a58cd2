"""DescribeTopicPartitions (key 75) in a cluster: as on a single broker, with the leaders that the controller told."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import describe_topic_partitions
from milepost.broker.apis.describe_topic_partitions import Topic
from milepost.broker.cluster_apis import metadata
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from milepost.replica.metadata import NO_LEADER

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 75


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> Work[DescribeTopicPartitionsResponse]:
    broker = cast("ClusterParts", context.broker)

    def partition(topic: str, number: int) -> Topic.Partition:
        known = broker.cluster.partition_info(topic, number)
        if known is None:
            return Topic.Partition(error_code=ErrorCode.LEADER_NOT_AVAILABLE, partition_index=number, leader_id=NO_LEADER)
        told = metadata.describe_partition(number, known, broker, context.listener)
        return Topic.Partition(
            error_code=told.error_code,
            partition_index=number,
            leader_id=told.leader_id,
            leader_epoch=told.leader_epoch,
            replica_nodes=told.replica_nodes,
            isr_nodes=told.isr_nodes,
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=told.offline_replicas,
        )

    return describe_topic_partitions.answer(request, broker, partition)
