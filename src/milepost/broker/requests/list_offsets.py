"""ListOffsets (key 2): the offset for a timestamp, or for one of the special values.

    value  since     the offset
    -1     always    latest: the last stable offset when isolation is read_committed
    -2     always    earliest
    -3     7         of the record with the largest timestamp (KIP-734)
    -4     8         earliest kept locally
    -5     9         latest tiered: without tiered storage, none
    -6     11        earliest not yet tiered: none

Before its version, and for any other negative value, the answer is 35 UNSUPPORTED_VERSION, whether there is such a partition or not.
A partition that is named twice is answered with 42 in both places, as in Kafka.

A new leader knows what is committed when its high watermark has reached the start of its epoch (KIP-207). Until then a consumer that asks
for the end, or for a time that is not found below the watermark, gets 78 OFFSET_NOT_AVAILABLE; before version 5, 5 LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from milepost.broker.fetch.partition_read import check_epoch
from milepost.errors import MilepostError
from milepost.log.reading import EARLIEST, EARLIEST_LOCAL, LATEST
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.replica.partition import Partition

READ_COMMITTED = 1
DEBUGGING = -2
EPOCHS_SINCE = 4
NOT_AVAILABLE_SINCE = 5
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, EARLIEST_PENDING_UPLOAD: 11}
STARTS = (EARLIEST, EARLIEST_LOCAL)
Answer = ListOffsetsResponse.Topic.Partition


def handle(request: ListOffsetsRequest, context: Context) -> Work[ListOffsetsResponse]:
    counts: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for asked in topic.partitions:
            counts[topic.name, asked.partition_index] += 1
            yield None
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if counts[topic.name, asked.partition_index] > 1:
                found = refuse(asked, ErrorCode.INVALID_REQUEST)
            else:
                found = answer(topic.name, asked, request, context)
            if context.version < EPOCHS_SINCE:
                found.leader_epoch = -1
            partitions.append(found)
            yield None
        topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def answer(topic: str, asked: ListOffsetsRequest.Topic.Partition, request: ListOffsetsRequest, context: Context) -> Answer:
    if asked.timestamp < 0 and context.version < SPECIAL_SINCE.get(asked.timestamp, context.version + 1):
        return refuse(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.replicas.partition(TopicPartition(topic, asked.partition_index))
    if partition is None:
        return refuse(asked, context.broker.missing_partition(TopicPartition(topic, asked.partition_index)))
    error_code = partition.unavailable_error(only_leader=request.replica_id != DEBUGGING) or check_epoch(
        partition, asked.current_leader_epoch
    )
    if error_code:
        return refuse(asked, error_code)
    # Brokers, and tools that say -2, see all of the log; everybody else what is committed, whatever it says it is.
    sees_all = request.replica_id == DEBUGGING or (request.replica_id >= 0 and context.speaks_for(request.replica_id))
    try:
        found = find(partition, asked, partition.log.end_offset if sees_all else committed_end(partition, request))
    except MilepostError as error:
        return refuse(asked, error.code)
    is_open = asked.timestamp == LATEST or found.offset < 0
    if is_open and not sees_all and not partition.knows_what_is_committed:
        is_known = context.version >= NOT_AVAILABLE_SINCE
        return refuse(asked, ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def committed_end(partition: Partition, request: ListOffsetsRequest) -> int:
    return partition.log.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.log.high_watermark


def find(partition: Partition, asked: ListOffsetsRequest.Topic.Partition, bound: int) -> Answer:
    log, timestamp = partition.log, asked.timestamp
    if timestamp == LATEST:
        return Answer(partition_index=asked.partition_index, timestamp=-1, offset=bound, leader_epoch=partition.leader_epoch)
    found = None if timestamp == EARLIEST_PENDING_UPLOAD else log.offset_for(timestamp)
    # What lies behind the bound is not there yet for this client.
    if found is None or found.offset < 0 or (timestamp not in STARTS and found.offset >= bound):
        return Answer(partition_index=asked.partition_index, timestamp=-1, offset=-1, leader_epoch=-1)
    return Answer(
        partition_index=asked.partition_index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


def refuse(asked: ListOffsetsRequest.Topic.Partition, error_code: int) -> Answer:
    return Answer(partition_index=asked.partition_index, error_code=error_code, timestamp=-1, offset=-1, leader_epoch=-1)
