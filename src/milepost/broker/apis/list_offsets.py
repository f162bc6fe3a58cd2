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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.apis.fetch import check_epoch
from milepost.broker.topic_requests import repeated
from milepost.errors import MilepostError
from milepost.log.partition_name import TopicPartition
from milepost.log.reading import LATEST
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.replica.partition import Partition

KEY = 2
READ_COMMITTED = 1
CONSUMER, DEBUGGING = -1, -2
EPOCHS_SINCE = 4
EARLIEST_PENDING_UPLOAD = -6
SPECIAL_SINCE = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, EARLIEST_PENDING_UPLOAD: 11}
Answer = ListOffsetsResponse.Topic.Partition


def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    repeats = repeated((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    topics = [
        ListOffsetsResponse.Topic(
            name=topic.name,
            partitions=[
                refuse(asked, ErrorCode.INVALID_REQUEST)
                if (topic.name, asked.partition_index) in repeats
                else answer(topic.name, asked, request, context)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    if context.version < EPOCHS_SINCE:
        for topic in topics:
            for partition in topic.partitions:
                partition.leader_epoch = -1
    return ListOffsetsResponse(topics=topics)


def answer(topic: str, asked: ListOffsetsRequest.Topic.Partition, request: ListOffsetsRequest, context: Context) -> Answer:
    if asked.timestamp < 0 and context.version < SPECIAL_SINCE.get(asked.timestamp, context.version + 1):
        return refuse(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.replicas.partition(TopicPartition(topic, asked.partition_index))
    if partition is None:
        return refuse(asked, context.broker.missing_partition(TopicPartition(topic, asked.partition_index)))
    error_code = partition.fault(only_leader=request.replica_id != DEBUGGING) or check_epoch(
        partition, asked.current_leader_epoch
    )
    if error_code:
        return refuse(asked, error_code)
    try:
        return find(partition, asked, bound_for(partition, request))
    except MilepostError as error:
        return refuse(asked, error.code)


def bound_for(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where the log ends for whoever asks: brokers (and tools that say -2) see all of it, consumers what is committed."""
    if request.replica_id != CONSUMER:
        return partition.log.end_offset
    return partition.log.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.log.high_watermark


def find(partition: Partition, asked: ListOffsetsRequest.Topic.Partition, bound: int) -> Answer:
    log, timestamp = partition.log, asked.timestamp
    if timestamp == LATEST:
        return Answer(partition_index=asked.partition_index, timestamp=-1, offset=bound, leader_epoch=partition.leader_epoch)
    found = None if timestamp == EARLIEST_PENDING_UPLOAD else log.offset_for(timestamp)
    # What lies behind the bound is not there yet for this client.
    if found is None or found.offset < 0 or (timestamp >= 0 and found.offset >= bound):
        return Answer(partition_index=asked.partition_index, timestamp=-1, offset=-1, leader_epoch=-1)
    return Answer(
        partition_index=asked.partition_index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


def refuse(asked: ListOffsetsRequest.Topic.Partition, error_code: int) -> Answer:
    return Answer(partition_index=asked.partition_index, error_code=error_code, timestamp=-1, offset=-1, leader_epoch=-1)
