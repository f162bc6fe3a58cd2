"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop moving them (null replicas); KIP-455.

By the controller alone (41 elsewhere); the answer says that the move has begun. With one broker every partition is where it can be: a
move to where it is already succeeds, as in Kafka, one to a broker that does not exist is refused (39), and there is none to stop (85).
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected, keyed
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context

FACTOR_SINCE = 1
Response = AlterPartitionReassignmentsResponse.Response


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Work[AlterPartitionReassignmentsResponse]:
    admin = context.broker.topology.topics
    if admin.refusal:
        return AlterPartitionReassignmentsResponse(error_code=admin.refusal)
    context.goes_on = True
    named = yield from collected(
        (TopicPartition(topic.name, part.partition_index), part.replicas) for topic in request.topics for part in topic.partitions
    )
    if len((yield from keyed(named, itemgetter(0)))) < len(named):
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="a partition is in the request more than once"
        )
    may_change_factor = context.version < FACTOR_SINCE or request.allow_replication_factor_change
    try:
        outcomes = yield from admin.reassigning(dict(named), may_change_factor)
    except MilepostError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=str(error))
    topics = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            code, message = outcomes[TopicPartition(topic.name, part.partition_index)]
            partitions.append(Response.Partition(partition_index=part.partition_index, error_code=code, error_message=message))
            yield
        topics.append(Response(name=topic.name, partitions=partitions))
        yield
    return AlterPartitionReassignmentsResponse(error_message=None, responses=topics)
