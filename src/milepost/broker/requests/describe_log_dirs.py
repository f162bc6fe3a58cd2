"""DescribeLogDirs (key 35): the data directories, the size of each partition in them, and from version 4 how much room there is.

A directory that went offline is answered with error 56. The lag is 0: a log that is served is its own leader, and none is being
moved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.log.log import Log
    from milepost.log.manager import LogManager

Result = DescribeLogDirsResponse.Result


def handle(request: DescribeLogDirsRequest, context: Context) -> Work[DescribeLogDirsResponse]:
    logs = context.broker.logs
    found = yield from logs_by_directory(request, logs)
    results = []
    for directory in list(logs.directories):
        results.append((yield from describe(directory.path, found.get(directory.path, []), logs)))
    results += [Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(path)) for path in logs.offline]
    return DescribeLogDirsResponse(results=results)


def logs_by_directory(request: DescribeLogDirsRequest, logs: LogManager) -> Work[dict[str, list[Log]]]:
    """What is asked for, in order, by the directory that it is in."""
    names: Iterable[TopicPartition] = list(logs.logs)
    if request.topics is not None:
        names = dict.fromkeys(
            (yield from collected(TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions))
        )
    known = [name for name in names if name in logs.logs]
    known.sort()
    found: dict[str, list[Log]] = {}
    for name in known:
        log = logs.logs.get(name)
        if log is not None:
            found.setdefault(os.path.dirname(log.directory), []).append(log)
        yield
    return found


def describe(path: str, found: list[Log], logs: LogManager) -> Work[Result]:
    topics: dict[str, list[Result.Topic.Partition]] = {}
    for log in found:
        topics.setdefault(log.partition.topic, []).append(size_of(log))
        yield
    try:
        total, usable = logs.disk.space(path)
    except OSError:
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(path))
    return Result(
        log_dir=os.path.abspath(path),
        topics=[Result.Topic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def size_of(log: Log) -> Result.Topic.Partition:
    return Result.Topic.Partition(partition_index=log.partition.partition, partition_size=log.segments.size_in_bytes)
