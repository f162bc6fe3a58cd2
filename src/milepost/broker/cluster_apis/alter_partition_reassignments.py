"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop moving them (null replicas); KIP-455.

By the controller alone (41 elsewhere). The answer says that the move has begun; see `controller/reassignment` for how it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from milepost.broker.slices import Work, collected
from milepost.broker.topic_requests import repeated
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.cluster.controller.reassignment import Answer

KEY = 45
Response = AlterPartitionReassignmentsResponse.Response


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Work[AlterPartitionReassignmentsResponse]:
    controller = cast("ClusterParts", context.broker).controller
    if controller is None:
        return AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    context.goes_on = True
    named = yield from collected(
        (TopicPartition(topic.name, part.partition_index), part.replicas) for topic in request.topics for part in topic.partitions
    )
    if repeated(name for name, _ in named):
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="a partition is in the request more than once"
        )
    if context.version >= 1 and not request.allow_replication_factor_change:
        for name, replicas in named:
            current = controller.context.assignment(name).target
            if replicas is not None and current and len(replicas) != len(current):
                return AlterPartitionReassignmentsResponse(
                    error_code=ErrorCode.INVALID_REPLICATION_FACTOR,
                    error_message=f"{name} has {len(current)} replicas, and {len(replicas)} are named",
                )
            yield
    answers: dict[TopicPartition, Answer] = {}

    def subscribe(resume: Callable[[], object]) -> None:
        def answered(found: dict[TopicPartition, Answer]) -> None:
            answers.update(found)
            resume()

        targets = {name: None if replicas is None else tuple(replicas) for name, replicas in named}
        controller.alter_reassignments(targets, answered)

    yield subscribe
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            code, message = answers[TopicPartition(topic.name, part.partition_index)]
            partitions.append(Response.Partition(partition_index=part.partition_index, error_code=code, error_message=message))
            yield
        topics.append(Response(name=topic.name, partitions=partitions))
        yield
    return AlterPartitionReassignmentsResponse(error_message=None, responses=topics)
