"""The cluster of a broker that serves attached directories: whatever topics are in them, and nothing is kept.

Where a data directory holds milepost's own `milepost.cluster.json`, its topics have the ids, the settings and the number of partitions
that stand there. Kafka keeps those elsewhere, so a topic of Kafka's has the id of its `partition.metadata`, no settings, and as many
partitions as its highest number says.

A partition that was not attached has no leader; clients are told so (see `broker/requests/metadata`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence

from milepost.cluster.change_log import Change
from milepost.cluster.solo import KEPT, SoloCluster
from milepost.cluster.view import TopicState
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")


class AttachedCluster(SoloCluster):
    def __init__(self, directories: Sequence[str], disk: Disk, rng: random.Random, cluster_id: str, node_id: int):
        self.stored: dict[str, TopicState] = {}
        """What is written down about topics, attached or not."""
        for directory in reversed(directories):
            try:
                self.stored.update(SoloCluster(directory, disk, rng, cluster_id, node_id).topics)
            except KafkaStorage as damage:
                logger.warning("%s; the settings of its topics are not known", damage)
        super().__init__(directories[0], disk, rng, cluster_id, node_id)

    def _load(self) -> None:
        """What is written down counts only for topics that are found."""

    def _attempt(self, changes: list[Change]) -> OSError | None:
        """Nothing is written to attached directories."""
        return None

    def adopt(
        self, found: Iterable[tuple[TopicPartition, str | None]], configs: Mapping[str, Mapping[str, str]] | None = None
    ) -> list[str]:
        counts: dict[str, int] = {}
        ids: dict[str, str | None] = {}
        for partition, topic_id in found:
            counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
            ids[partition.topic] = ids.get(partition.topic) or topic_id
        for name, count in counts.items():
            stored = self.stored.get(name)
            if stored is None:
                self._remember(name, ids[name] or random_topic_id(self.rng), count, KEPT)
            else:
                self._remember(name, stored.topic_id_text, max(count, stored.partitions), stored.configs)
        return list(counts)
