"""OffsetForLeaderEpoch (key 23): where the records of a leader epoch end, so that a client can tell whether its log was cut.

The answer is the largest epoch not above the one asked for, and the offset behind its last record; -1 and -1 when there is none.
The current epoch ends at the end of the log, also when nothing was written in it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.fetch.partition_read import check_epoch
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

Wanted = OffsetForLeaderEpochRequest.Topic.Partition
Answer = OffsetForLeaderEpochResponse.Topic.Partition


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> Work[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            partitions.append(find(topic.topic, wanted, context.broker))
            yield None
        topics.append(OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def find(topic: str, wanted: Wanted, broker: Parts) -> Answer:
    answer = Answer(partition=wanted.partition, leader_epoch=-1, end_offset=-1)
    partition = broker.replicas.partition(TopicPartition(topic, wanted.partition))
    if partition is None:
        answer.error_code = broker.missing_partition(TopicPartition(topic, wanted.partition))
        return answer
    answer.error_code = partition.unavailable_error() or check_epoch(partition, wanted.current_leader_epoch)
    if answer.error_code == ErrorCode.NONE:
        log, epoch = partition.log, wanted.leader_epoch
        if epoch == partition.leader_epoch:
            answer.leader_epoch, answer.end_offset = epoch, log.end_offset
        else:
            answer.leader_epoch, answer.end_offset = log.epochs.end_offset_for(epoch, log.end_offset)
    return answer
