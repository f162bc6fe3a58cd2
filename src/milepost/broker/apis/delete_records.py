"""DeleteRecords (key 21): everything below an offset of a partition (-1: below the high watermark) can no longer be read.

The answer has the new start of the log. Files go later, when a whole segment lies below it. A topic that is only compacted keeps
its records (44), and so do internal topics (17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

KEY = 21
Wanted = DeleteRecordsRequest.Topic.Partition
Answer = DeleteRecordsResponse.Topic.Partition


def handle(request: DeleteRecordsRequest, context: Context) -> Work[DeleteRecordsResponse]:
    return (yield from delete_all(request, context.broker))


def delete_all(request: DeleteRecordsRequest, broker: Parts) -> Work[DeleteRecordsResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            partitions.append(delete(topic.name, wanted, broker))
            yield None
        topics.append(DeleteRecordsResponse.Topic(name=topic.name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def delete(topic: str, wanted: Wanted, broker: Parts) -> Answer:
    answer = Answer(partition_index=wanted.partition_index, low_watermark=-1)
    partition = broker.replicas.partition(TopicPartition(topic, wanted.partition_index))
    if partition is None:
        answer.error_code = broker.missing_partition(TopicPartition(topic, wanted.partition_index))
    elif partition.fault():
        answer.error_code = partition.fault()
    elif broker.cluster.topics[topic].is_internal:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        try:
            answer.low_watermark = partition.log.delete_records(wanted.offset)
        except MilepostError as error:
            answer.error_code = error.code
    return answer
