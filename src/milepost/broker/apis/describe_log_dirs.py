"""DescribeLogDirs (key 35): the data directories, the size of each partition in them, and from version 4 how much room there is.

A directory that went offline is answered with error 56. The lag is 0: a log that is served is its own leader, and none is being
moved.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.log.log import Log
    from milepost.log.manager import LogManager

KEY = 35
Result = DescribeLogDirsResponse.Result


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    logs = context.broker.logs
    wanted: Collection[TopicPartition] = logs.logs
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    results = [describe(directory.path, wanted, logs) for directory in logs.directories]
    results += [Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(path)) for path in logs.offline]
    return DescribeLogDirsResponse(results=results)


def describe(path: str, wanted: Collection[TopicPartition], logs: LogManager) -> Result:
    topics: dict[str, list[Log]] = {}
    for name, log in sorted(logs.logs.items()):
        if name in wanted and os.path.dirname(log.directory) == path:
            topics.setdefault(name.topic, []).append(log)
    try:
        total, usable = logs.disk.space(path)
    except OSError:
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(path))
    return Result(
        log_dir=os.path.abspath(path),
        topics=[Result.Topic(name=topic, partitions=[size_of(log) for log in found]) for topic, found in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def size_of(log: Log) -> Result.Topic.Partition:
    return Result.Topic.Partition(partition_index=log.partition.partition, partition_size=log.segments.size_in_bytes)
