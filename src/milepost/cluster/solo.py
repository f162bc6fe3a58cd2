"""A cluster of one broker, without ZooKeeper: what it must remember lies in one file beside its logs.

`milepost.cluster.json` in the first data directory (Kafka ignores it):

    {"version": 1,
     "topics": {"page_visits": {"id": "22 characters of base64", "partitions": 5, "config": {"retention.ms": "-1"}}},
     "brokers": {"": {...}, "0": {...}},            settings of all brokers, and of this one
     "groups": {"readers": {"consumer.session.timeout.ms": "50000"}},
     "quotas": [{"entity": {"user": null}, "values": {"producer_byte_rate": 1000.0}}],
     "features": {"epoch": 1, "levels": {"transaction.version": 1}},     levels that were ever moved; the others are at their first
     "next_producer_id": 1000}

It is replaced as a whole before a change is answered. Topics that are found on disk but not in the file (a directory
that Kafka left behind) are taken in as they are: the id from `partition.metadata`, the partitions from the directory
names.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from milepost.cluster.view import ClusterView, TopicState
from milepost.errors import KafkaStorage
from milepost.files import Disk, read_file, replace_file
from milepost.log.partition_metadata import random_topic_id, topic_id_bytes
from milepost.log.partition_name import TopicPartition

FILE_NAME = "milepost.cluster.json"
VERSION = 1
PRODUCER_ID_BLOCK = 1000
# Settings of a topic whose own are not known: nothing is thrown away.
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}


class SoloCluster(ClusterView):
    def __init__(self, directory: str, disk: Disk, rng: random.Random, cluster_id: str, node_id: int):
        super().__init__(cluster_id, node_id)
        self.path = f"{directory}/{FILE_NAME}"
        self.disk = disk
        self.rng = rng
        self._next_producer_id = 0
        self._producer_ids_left = 0
        self._load()

    # Remembering.

    def _load(self) -> None:
        try:
            data = read_file(self.disk, self.path)
        except FileNotFoundError:
            return
        try:
            content = json.loads(data)
            for name, topic in content["topics"].items():
                self._remember(name, topic["id"], int(topic["partitions"]), dict(topic["config"]))
            self.broker_configs = {str(name): dict(configs) for name, configs in content["brokers"].items()}
            self.group_configs = {str(name): dict(configs) for name, configs in content.get("groups", {}).items()}
            self.client_quotas = list(content["quotas"])
            features = content.get("features", {"epoch": 0, "levels": {}})
            self.features_epoch = int(features["epoch"])
            self.feature_levels = {str(name): int(level) for name, level in features["levels"].items()}
            self._next_producer_id = int(content["next_producer_id"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KafkaStorage(
                f"{self.path}: not what this broker wrote ({error}); restore it, or move it away to start without topics"
            ) from error

    def save(self, undo: Callable[[], object] = lambda: None) -> None:
        """Write everything down. What cannot be written is undone: it would be gone after a restart."""
        content = {
            "version": VERSION,
            "topics": {
                topic.name: {"id": topic.topic_id_text, "partitions": topic.partitions, "config": topic.configs}
                for topic in self.topics.values()
            },
            "brokers": self.broker_configs,
            "groups": self.group_configs,
            "quotas": self.client_quotas,
            "features": {"epoch": self.features_epoch, "levels": self.feature_levels},
            "next_producer_id": self._next_producer_id,
        }
        try:
            replace_file(self.disk, self.path, json.dumps(content, indent=1, sort_keys=True).encode())
        except OSError as error:
            undo()
            raise KafkaStorage(f"{self.path}: cannot be written ({error}); nothing has been changed") from error

    def _remember(self, name: str, topic_id: str, partitions: int, configs: Mapping[str, str]) -> TopicState:
        topic = TopicState(name, topic_id_bytes(topic_id, name), topic_id, partitions, dict(configs))
        self._add(topic)
        return topic

    def adopt(
        self, found: Iterable[tuple[TopicPartition, str | None]], configs: Mapping[str, Mapping[str, str]] | None = None
    ) -> list[str]:
        """Take in the partitions that are on disk of topics nobody told us about, with these settings or KEPT; the names of the topics."""
        strangers: dict[str, tuple[int, str | None]] = {}
        for partition, topic_id in found:
            if partition.topic not in self.topics:
                most, known_id = strangers.get(partition.topic, (0, None))
                strangers[partition.topic] = (max(most, partition.partition + 1), known_id or topic_id)
        for name, (partitions, topic_id) in strangers.items():
            self._remember(name, topic_id or random_topic_id(self.rng), partitions, (configs or {}).get(name, KEPT))
        if strangers:
            self.save()
        return list(strangers)

    # Topics.

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> TopicState:
        topic = self._remember(name, random_topic_id(self.rng), partitions, configs or {})
        self.save(lambda: self._remove(topic))
        return topic

    def delete_topic(self, name: str) -> TopicState:
        topic = self.topics[name]
        self._remove(topic)
        self.save(lambda: self._add(topic))
        return topic

    def add_partitions(self, name: str, total: int) -> None:
        topic = self.topics[name]
        before, topic.partitions = topic.partitions, total
        self.save(lambda: setattr(topic, "partitions", before))

    def alter_topic_config(self, name: str, configs: Mapping[str, str]) -> None:
        topic = self.topics[name]
        before, topic.configs = topic.configs, dict(configs)
        self.save(lambda: setattr(topic, "configs", before))

    # Brokers, groups and clients.

    def alter_broker_config(self, name: str, configs: Mapping[str, str]) -> None:
        """Of a broker by its id, or of all brokers under ""."""
        before, self.broker_configs = self.broker_configs, {**self.broker_configs, name: dict(configs)}
        self.save(lambda: setattr(self, "broker_configs", before))

    def alter_group_config(self, name: str, configs: Mapping[str, str]) -> None:
        """Of a group, whether there is one of that name or not."""
        before, self.group_configs = self.group_configs, {**self.group_configs, name: dict(configs)}
        if not configs:
            del self.group_configs[name]
        self.save(lambda: setattr(self, "group_configs", before))

    def alter_client_quotas(self, quotas: list[dict[str, Any]]) -> None:
        before, self.client_quotas = self.client_quotas, quotas
        self.save(lambda: setattr(self, "client_quotas", before))

    def update_features(self, levels: Mapping[str, int]) -> None:
        before = self.feature_levels, self.features_epoch

        def undo() -> None:
            self.feature_levels, self.features_epoch = before

        self.feature_levels = {**self.feature_levels, **levels}
        self.features_epoch += 1
        self.save(undo)

    # Producer ids.

    def allocate_producer_id(self) -> int:
        """A producer id nobody had before. A block of them is claimed at a time, so that a crash loses ids and never repeats one."""
        if not self._producer_ids_left:
            before = self._next_producer_id
            self._next_producer_id += PRODUCER_ID_BLOCK
            self.save(lambda: setattr(self, "_next_producer_id", before))
            self._producer_ids_left = PRODUCER_ID_BLOCK
        self._producer_ids_left -= 1
        return self._next_producer_id - self._producer_ids_left - 1

    def skip_producer_ids(self, known: int) -> None:
        """Give away no id up to `known`: somebody has it."""
        if known >= self._next_producer_id:
            before = self._next_producer_id
            self._next_producer_id = (known // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK
            self.save(lambda: setattr(self, "_next_producer_id", before))
            self._producer_ids_left = 0
