"""AlterReplicaLogDirs (key 34): move partitions to another data directory.

A partition that is where it should be is fine. Others are not moved: a directory that this broker has, but the partition is not
in, is answered with 42, one that it does not have with 57, one that is offline with 56.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.log.manager import LogManager

Result = AlterReplicaLogDirsResponse.Result


def handle(request: AlterReplicaLogDirsRequest, context: Context) -> Work[AlterReplicaLogDirsResponse]:
    results: dict[str, list[Result.Partition]] = {}
    for directory in request.dirs:
        target = os.path.abspath(directory.path)
        for topic in directory.topics:
            partitions = results.setdefault(topic.name, [])
            for number in topic.partitions:
                code = check(target, TopicPartition(topic.name, number), context.broker.logs)
                partitions.append(Result.Partition(partition_index=number, error_code=code))
                yield
            yield
        yield
    return AlterReplicaLogDirsResponse(
        results=[Result(topic_name=name, partitions=partitions) for name, partitions in results.items()]
    )


def check(target: str, partition: TopicPartition, logs: LogManager) -> int:
    if target in map(os.path.abspath, logs.offline):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if target not in (os.path.abspath(directory.path) for directory in logs.directories):
        return ErrorCode.LOG_DIR_NOT_FOUND
    log = logs.logs.get(partition)
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_there = os.path.dirname(os.path.abspath(log.directory)) == target
    return ErrorCode.NONE if is_there else ErrorCode.INVALID_REQUEST
