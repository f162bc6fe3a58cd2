"""The cluster's metadata, as all parts of a broker read it: from a file (`solo`) or from the controller and ZooKeeper
(`controller_metadata`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from milepost.security.scram import ScramCredential

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
        self.being_deleted: dict[str, str] = {}
        """Deleted topics by name, with their ids, until their directories are gone."""
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By the id of a broker; "" stands for all of them."""
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_quotas: list[dict[str, Any]] = []
        self.scram_users: dict[str, dict[str, ScramCredential]] = {}
        """By name and mechanism."""
        self.feature_levels: dict[str, int] = {}
        self.features_epoch = 0
        self.change_count = 0
        """Since the start, where this broker keeps them; the snapshot that it began with is none."""
        self._by_id: dict[bytes, TopicState] = {}
        self._by_metric_name: dict[str, str] = {}

    def take_clients(self, quotas: list[dict[str, Any]], scram_users: dict[str, dict[str, ScramCredential]]) -> None:
        self.client_quotas, self.scram_users = quotas, scram_users

    def stored_topic_configs(self, name: str) -> Mapping[str, str]:
        """As the cluster has them; `configs` of a topic are those in force, which differ where this broker cannot apply the stored ones."""
        return self.topics[name].configs

    def stored_broker_configs(self, name: str) -> Mapping[str, str]:
        """Likewise; `broker_configs` are those in force."""
        return self.broker_configs.get(name, {})

    def collision_of(self, name: str) -> str | None:
        """A topic whose name differs from this one only in dots and underscores, which metrics cannot tell apart."""
        return self._by_metric_name.get(metric_name(name))

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
        self._by_metric_name[metric_name(topic.name)] = topic.name
        if topic.topic_id != NO_TOPIC_ID:
            self._by_id[topic.topic_id] = topic

    def _remove(self, topic: TopicState) -> None:
        del self.topics[topic.name]
        if self.collision_of(topic.name) == topic.name:
            del self._by_metric_name[metric_name(topic.name)]
        self._by_id.pop(topic.topic_id, None)


def metric_name(topic: str) -> str:
    return topic.replace(".", "_")
