"""Topics for tests, made over the wire: the broker runs on a thread of its own and is not touched from here."""

from __future__ import annotations

from milepost.client.admin import create_topic
from milepost.client.cluster import Cluster


def make_topic(cluster: Cluster, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    create_topic(cluster, name, partitions=partitions, replication_factor=1, configs=configs)
