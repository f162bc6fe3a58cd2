"""Which partitions are in directories that a person names: partition directories, or data directories full of them.

In a data directory only what a broker would serve counts: not what is marked as deleted, stray or on its way in, and not Kafka's own
log of its metadata. A directory that is named itself is taken whatever mark it carries: that is how deleted records are looked at again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect.paths import PathKind, look_at, partitions_in
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.manager import NOT_PARTITIONS
from milepost.topic_partition import TopicPartition


def find_partitions(paths: Iterable[str], disk: Disk) -> dict[TopicPartition, str]:
    """The directory of each partition, by its absolute path."""
    found: dict[TopicPartition, str] = {}
    for path in dict.fromkeys(posixpath.abspath(path) for path in paths):
        for partition, directory in partitions_at(path, disk):
            if found.setdefault(partition, directory) != directory:
                raise KafkaStorage(
                    f"{partition} is in two places, {found[partition]} and {directory}; attach one of them, "
                    "or both with a broker and a port each"
                )
    return found


def partitions_at(path: str, disk: Disk) -> Iterator[tuple[TopicPartition, str]]:
    target = look_at(disk, path)
    if target.kind is PathKind.FILE:
        raise KafkaStorage(f"{path}: a file; name the partition directory it lies in, {posixpath.dirname(path)}")
    if target.kind is PathKind.PARTITION:
        yield parse_directory_name(posixpath.basename(path))[0], path
        return
    live = [name for name in partitions_in(disk, path) if name not in NOT_PARTITIONS and not parse_directory_name(name)[1]]
    if not live:
        raise KafkaStorage(f"{path}: no partition directory (such as page_visits-0) is in it, so there is nothing to serve")
    for name in live:
        yield parse_directory_name(name)[0], f"{path}/{name}"
