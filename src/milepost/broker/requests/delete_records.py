"""DeleteRecords (key 21): everything below an offset of a partition (-1: below the high watermark) can no longer be read.

The answer has the new start of the log. Files go later, when a whole segment lies below it. A topic that is only compacted keeps
its records (44), and so do internal topics (17).

In a cluster it is done when every replica that is alive starts no earlier than the offset, or with 7 when time is up. Followers hear of
the leader's new start with the answer to their next fetch, and say their own in the one after that.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from milepost.replica.purgatory import start_key
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.replica.partition import Partition

Wanted = DeleteRecordsRequest.Topic.Partition
Answer = DeleteRecordsResponse.Topic.Partition


def handle(request: DeleteRecordsRequest, context: Context) -> Work[DeleteRecordsResponse | None]:
    broker = context.broker
    topics = (yield from delete_all(request, broker)).topics
    waiting: dict[Hashable, tuple[Partition, Answer]] = {}
    for topic in topics:
        for answer in topic.partitions:
            yield None
            partition = broker.replicas.partition_of(topic.name, answer.partition_index)
            if not answer.error_code and partition is not None and not is_everywhere(partition, answer):
                waiting[start_key(partition.name)] = (partition, answer)

    def try_complete(key: Hashable) -> bool:
        if key in waiting and is_everywhere(*waiting[key]):
            del waiting[key]
        return not waiting

    def complete() -> None:
        for _, answer in waiting.values():
            answer.error_code, answer.low_watermark = ErrorCode.REQUEST_TIMED_OUT, -1
        if context.is_connected:
            context.answer(DeleteRecordsResponse(topics=topics))

    if waiting:
        guarded = context.guarded
        broker.replicas.purgatory.wait(list(waiting), guarded(try_complete), guarded(complete), request.timeout_ms / 1000)
        return None
    return DeleteRecordsResponse(topics=topics)


def is_everywhere(partition: Partition, answer: Answer) -> bool:
    return partition.leadership is not None and partition.leadership.low_watermark >= answer.low_watermark


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
    elif partition.unavailable_error():
        answer.error_code = partition.unavailable_error()
    elif broker.cluster.topics[topic].is_internal:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        try:
            answer.low_watermark = partition.log.delete_records(wanted.offset)
        except MilepostError as error:
            answer.error_code = error.code
    return answer
