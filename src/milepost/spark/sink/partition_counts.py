"""How many partitions a topic has, as a task needs to know before it writes: by its directories, or by its broker."""

from __future__ import annotations

from collections.abc import Callable

from milepost.client.cluster import Cluster
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.directory.partition_directory import parse_directory_name


def in_directory(disk: Disk, path: str, default: int) -> Callable[[str], int]:
    """Of topics that have directories; the default for those that will be made."""
    counts: dict[str, int] = {}
    for name in disk.listdir(path) if disk.exists(path) else ():
        try:
            partition, suffix = parse_directory_name(name)
        except KafkaStorage:
            continue
        if not suffix:
            counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
    return lambda topic: counts.get(topic, default)


def on_brokers(cluster: Cluster) -> Callable[[str], int]:
    """A topic that does not exist is made, if the brokers do that."""
    return lambda topic: len(cluster.topic(topic, may_create=True).partitions)
