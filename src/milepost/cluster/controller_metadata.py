"""The cluster's metadata as this broker gets it: topics and brokers from the controller, settings from ZooKeeper.

UpdateMetadata says which topics there are and who leads; /config says how they are set. A topic is known with the
first UpdateMetadata that names it, with the settings that were read by then.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from milepost.cluster.view import NO_TOPIC_ID, ClusterView, TopicState
from milepost.log.directory.partition_metadata import topic_id_text
from milepost.protocol.messages import UpdateMetadataRequest
from milepost.replica.metadata import BrokerInfo, PartitionInfo
from milepost.replica.metadata_cache import NO_CONTROLLER, MetadataCache
from milepost.topic_partition import TopicPartition


class ControllerMetadata(ClusterView):
    def __init__(self, node_id: int, feature_levels: Mapping[str, int]):
        super().__init__("", node_id)
        self.metadata = MetadataCache()
        self.feature_levels = dict(feature_levels)
        self.stored_topics: dict[str, dict[str, str]] = {}
        """Settings as they were read, by topic. Those of a deleted topic say nothing about the next one of its name."""
        self.stored_brokers: dict[str, dict[str, str]] = {}
        self.topic_configs: dict[str, dict[str, str]] = {}
        """Of those: what this broker could apply last."""
        self.elected_id: int | None = None
        """Whose id stood in /controller when it was read last."""

    @property
    def controller_id(self) -> int:
        """/controller, where it has been read: it is newer than the last UpdateMetadata."""
        return self.metadata.controller_id if self.elected_id is None else self.elected_id

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Those that the controller lists as alive."""
        return self.metadata.brokers

    @property
    def controller(self) -> BrokerInfo | None:
        return None if self.controller_id == NO_CONTROLLER else self.brokers.get(self.controller_id)

    def partition_info(self, topic: str, number: int) -> PartitionInfo | None:
        return self.metadata.topics.get(topic, {}).get(number)

    # What the controller says.

    def updating(self, request: UpdateMetadataRequest) -> Generator[None, None, list[TopicPartition]]:
        """Take over an UpdateMetadata, in pieces; the partitions that are being deleted."""
        deleted = yield from self.metadata.applying(request)
        named = {topic.topic_name for topic in request.topic_states}
        named |= {state.topic_name for state in request.ungrouped_partition_states}
        for name in named:
            self._refresh(name)
            yield
        return deleted

    def _refresh(self, name: str) -> None:
        partitions = self.metadata.topics.get(name)
        known = self.topics.get(name)
        if partitions is None:
            if known is not None:
                self._remove(known)
                self.forget_topic_config(name)
            return
        topic_id = self.metadata.topic_ids.get(name, NO_TOPIC_ID)
        if known is not None and known.topic_id == topic_id:
            known.partitions = max(partitions) + 1
            return
        if known is not None:
            self._remove(known)
            self.forget_topic_config(name)
        text = topic_id_text(topic_id) if topic_id != NO_TOPIC_ID else ""
        self._add(TopicState(name, topic_id, text, max(partitions) + 1, self.topic_configs.get(name, {})))

    # What ZooKeeper says.

    def stored_topic_configs(self, name: str) -> Mapping[str, str]:
        return self.stored_topics.get(name, {})

    def stored_broker_configs(self, name: str) -> Mapping[str, str]:
        return self.stored_brokers.get(name, {})

    def set_topic_config(self, name: str, configs: dict[str, str]) -> None:
        """They are in force from now on."""
        self.topic_configs[name] = configs
        if name in self.topics:
            self.topics[name].configs = configs

    def forget_topic_config(self, name: str) -> None:
        self.stored_topics.pop(name, None)
        self.topic_configs.pop(name, None)
        if name in self.topics:
            self.topics[name].configs = {}
