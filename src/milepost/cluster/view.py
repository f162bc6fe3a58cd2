"""What everything in a broker reads about its cluster, whoever keeps it: a file (`solo`) or a controller and ZooKeeper (`told`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
NO_TOPIC_ID = bytes(16)


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: bytes
    topic_id_text: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class ClusterView:
    def __init__(self, cluster_id: str, node_id: int):
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.topics: dict[str, TopicState] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By the id of a broker; "" stands for all of them."""
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_quotas: list[dict[str, Any]] = []
        self.feature_levels: dict[str, int] = {}
        self.features_epoch = 0
        self._by_id: dict[bytes, TopicState] = {}

    def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return self._by_id.get(topic_id)

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._by_id.get(topic_id)
        return topic.name if topic else None

    def id_of(self, name: str) -> bytes | None:
        topic = self.topics.get(name)
        return topic.topic_id if topic else None

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self.topics.get(name)
        return topic is not None and 0 <= partition < topic.partitions

    def _add(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        if topic.topic_id != NO_TOPIC_ID:
            self._by_id[topic.topic_id] = topic

    def _remove(self, topic: TopicState) -> None:
        del self.topics[topic.name]
        self._by_id.pop(topic.topic_id, None)
