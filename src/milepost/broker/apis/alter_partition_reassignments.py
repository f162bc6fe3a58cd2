"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop moving them (null replicas); KIP-455.

With one broker every partition is where it can be. A move to where it is already succeeds, as in Kafka; one to a broker that does not
exist is refused (39), and there is none to stop (85).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.broker.slices import Work
from milepost.broker.topic_errors import UnknownTopic
from milepost.broker.topic_requests import ensure_assignable, repeated
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts

KEY = 45
Response = AlterPartitionReassignmentsResponse.Response


class NoReassignment(MilepostError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    exit_code = 4


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Work[AlterPartitionReassignmentsResponse]:
    if repeated((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions):
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="a partition is in the request more than once"
        )
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            answer = Response.Partition(partition_index=part.partition_index, error_message=None)
            try:
                ensure_moved(topic.name, part.partition_index, part.replicas, context.broker)
            except MilepostError as error:
                answer.error_code, answer.error_message = error.code, str(error)
            partitions.append(answer)
            yield
        topics.append(Response(name=topic.name, partitions=partitions))
        yield
    return AlterPartitionReassignmentsResponse(error_message=None, responses=topics)


def ensure_moved(topic: str, number: int, replicas: Sequence[int] | None, broker: Parts) -> None:
    """That a partition is where it is to be."""
    if not broker.cluster.has_partition(topic, number):
        raise UnknownTopic(f"there is no partition {number} of a topic {topic[:60]!r}")
    if replicas is None:
        raise NoReassignment(f"partition {number} of topic {topic} is not being moved")
    ensure_assignable(number, replicas, broker.node_id)
