"""ListPartitionReassignments (key 46) in a cluster: partitions that are being moved, as the controller knows (41 elsewhere)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 46
Topic = ListPartitionReassignmentsResponse.Topic


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Work[ListPartitionReassignmentsResponse]:
    controller = cast("ClusterParts", context.broker).controller
    if controller is None:
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message="ask the controller")
    moving = controller.context.reassigned
    if request.topics is not None:
        asked = yield from collected(
            TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
        )
        chosen = set(asked)
        moving = [name for name in moving if name in chosen]
    topics: dict[str, Topic] = {}
    for name in moving:
        assignment = controller.context.assignment(name)
        topics.setdefault(name.topic, Topic(name=name.topic, partitions=[])).partitions.append(
            Topic.Partition(
                partition_index=name.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
        yield
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
