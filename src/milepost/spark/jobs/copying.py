"""Appending what tasks have staged to the topics of a data directory, once: what load and backfill end with.

A job has a name, given or made of what it was told to do. It is committed under that name (see `sink.commit`), so that a second
run with the same name finds it done. A run that is killed before its commit has changed nothing; within the commit, nothing of it can be
seen yet, and the next run, whichever it is, takes it back or finishes it.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping

from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk, make_directories, read_file
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.log.manager import LogManager
from milepost.spark.jobs.source import log_options
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.sink.commit import FILE_NAME, Commit
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.partition_counts import in_directory
from milepost.spark.sink.staging import COMMIT_FILE
from milepost.topic_partition import TopicPartition, topic_name_fault

BATCH = 0


def name_of(job: str, inputs: Mapping[str, object]) -> str:
    """The same for the same inputs."""
    text = json.dumps(inputs, sort_keys=True, default=str)
    return f"{job}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def is_done(disk: Disk, data: str, name: str) -> bool:
    """Whether a job of this name was committed to the data directory."""
    try:
        noted = json.loads(read_file(disk, f"{data}/{FILE_NAME}"))
        found = int(noted["queries"].get(name, BATCH - 1)) >= BATCH
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaStorage(f"{data}/{FILE_NAME}: not what a sink wrote ({error}); restore it, or move it away") from error
    if found:
        _show(disk, data, name)
    return found


def _show(disk: Disk, data: str, name: str) -> None:
    """Finish the commit if it was killed at its very end: named already, and not seen by readers yet."""
    options = SinkOptions(posixpath.normpath(data), None)
    staged = disk.listdir(options.staging) if disk.exists(options.staging) else []
    if any(disk.exists(f"{options.staging}/{job}/{COMMIT_FILE}") for job in staged):
        Commit(options, f"{options.staging}/finishing").run((), name, BATCH)


def ensure_free(disk: Disk, data: str) -> None:
    """Refuse now what would be refused at the commit: DirectoryLocked names the process that has the directory."""
    make_directories(disk, data)
    DirectoryLock(data, disk).release()


def make_topic(disk: Disk, data: str, topic: str, partitions: int, segment_bytes: int) -> None:
    """The topic with that many partitions, unless it is there.

    The last partition is made first: from then on its number says how many there are, and a run that finds some missing makes those.
    """
    there = in_directory(disk, data, 0)(topic)
    missing = [number for number in range(there or partitions) if not disk.exists(f"{data}/{TopicPartition(topic, number)}")]
    if not missing:
        return
    fault = topic_name_fault(topic)
    if fault is not None:
        raise InvalidArgument(f"topic name {topic[:60]!r}: {fault}")
    logs = LogManager(BrokerConfig.parse({"log.dirs": data, "log.segment.bytes": segment_bytes}))
    logs.startup()
    try:
        for number in reversed(missing):
            logs.create(TopicPartition(topic, number))
    finally:
        logs.shutdown()


def ends_of(data: str, topics: set[str]) -> dict[TopicPartition, int]:
    """Where the logs of the topics end for readers; those that do not exist yet are left out."""
    transport = LogFilesTransport(log_options(data))
    there = [name for name in transport.partitions(transport.options.subscription) if name.topic in topics]
    return transport.latest(there)


def grown_by(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> int:
    return sum(end - before.get(name, 0) for name, end in after.items())
