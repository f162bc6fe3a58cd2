"""What a produce request names, and what it is told about each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError, RecordValidation
from milepost.protocol.messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState

PartitionData = ProduceRequest.TopicData.PartitionData
PartitionResponse = ProduceResponse.Response.PartitionResponse


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
