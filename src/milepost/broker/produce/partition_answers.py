"""The partitions of a produce request, and the response for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError, RecordValidation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.cluster.view import TopicState
    from milepost.topic_partition import TopicPartition

PartitionData = ProduceRequest.TopicData.PartitionData
PartitionResponse = ProduceResponse.Response.PartitionResponse
NOT_ANSWERED = "a produce request with acks=0 failed with error {}, which only a closed connection can tell"


def known_topic(topic: ProduceRequest.TopicData, context: Context) -> TopicState | None:
    cluster = context.broker.cluster
    return cluster.topic_by_id(topic.topic_id) if context.version >= 13 else cluster.topics.get(topic.name)


def refuse_topic(topic: ProduceRequest.TopicData, error_code: int) -> ProduceResponse.Response:
    partitions = [PartitionResponse(index=part.index, error_code=error_code, base_offset=-1) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def refused_partition(index: int, error: MilepostError) -> PartitionResponse:
    """The answer for a partition that did not take its batch."""
    response = PartitionResponse(index=index, error_code=error.code, base_offset=-1, error_message=str(error))
    if isinstance(error, RecordValidation):
        response.record_errors = [
            PartitionResponse.RecordError(batch_index=number, batch_index_error_message=text)
            for number, text in error.record_errors
        ]
    return response


def missing_partition(name: TopicPartition, broker: Parts) -> PartitionResponse:
    """The answer for a partition that is not on this broker."""
    missing = broker.missing_partition(name)
    # As in Kafka a produce of its topic, if there is such a partition elsewhere.
    broker.replicas.topic_metrics.of(name.topic).produce_requests += missing == ErrorCode.NOT_LEADER_OR_FOLLOWER
    return PartitionResponse(index=name.partition, error_code=missing, base_offset=-1)


def unacknowledged(part: PartitionResponse, error_code: int) -> PartitionResponse:
    """The answer for a partition that took its batch, which is not on enough replicas in time, or not durable."""
    part.error_code, part.base_offset = error_code, -1
    return part
