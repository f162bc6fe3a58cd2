"""What this broker knows of the whole cluster, from the controller's UpdateMetadata requests.

Each request brings the list of all live brokers and the partitions that changed. A partition with leader -2 is being deleted and is
forgotten. Metadata responses are made from here; it may be a moment behind, and clients know that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from milepost.protocol.messages import UpdateMetadataRequest
from milepost.replica.metadata import LEADER_DURING_DELETE, BrokerInfo, Endpoint, PartitionInfo
from milepost.topic_partition import TopicPartition

NO_TOPIC_ID = bytes(16)
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NO_CONTROLLER = -1


class MetadataCache:
    def __init__(self) -> None:
        self.controller_id = NO_CONTROLLER
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, dict[int, PartitionInfo]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}

    def partition(self, name: TopicPartition) -> PartitionInfo | None:
        return self.topics.get(name.topic, {}).get(name.partition)

    def applying(self, request: UpdateMetadataRequest) -> Generator[None, None, list[TopicPartition]]:
        """Take over what the controller says, in pieces; the partitions that are being deleted."""
        self.controller_id = request.controller_id
        self.brokers = {broker.id: _broker(broker) for broker in request.live_brokers}
        deleted = []
        for topic, topic_id, state in _states(request):
            name = TopicPartition(topic, state.partition_index)
            if state.leader == LEADER_DURING_DELETE:
                deleted.append(name)
                self._forget(name)
                yield
                continue
            self.topics.setdefault(topic, {})[name.partition] = PartitionInfo(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                tuple(state.replicas),
                tuple(state.offline_replicas),
                state.zk_version,
                state.controller_epoch,
            )
            if topic_id != NO_TOPIC_ID:
                self.topic_ids[topic] = topic_id
                self.topic_names[topic_id] = topic
            yield
        return deleted

    def _forget(self, name: TopicPartition) -> None:
        partitions = self.topics.get(name.topic)
        if partitions is None:
            return
        partitions.pop(name.partition, None)
        if not partitions:
            del self.topics[name.topic]
            topic_id = self.topic_ids.pop(name.topic, None)
            if topic_id is not None:
                self.topic_names.pop(topic_id, None)


def _states(request: UpdateMetadataRequest) -> Iterator[tuple[str, bytes, Any]]:
    """(topic, id, state) of every partition named, in every version of the request."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state
    for ungrouped in request.ungrouped_partition_states:
        yield ungrouped.topic_name, NO_TOPIC_ID, ungrouped


def _broker(broker: Any) -> BrokerInfo:
    if not broker.endpoints:  # version 0
        return BrokerInfo(broker.id, -1, (Endpoint("PLAINTEXT", "PLAINTEXT", broker.v0_host, broker.v0_port),), None)
    endpoints = tuple(
        Endpoint(
            each.listener or SECURITY_PROTOCOLS[each.security_protocol],
            SECURITY_PROTOCOLS[each.security_protocol],
            each.host,
            each.port,
        )
        for each in broker.endpoints
    )
    return BrokerInfo(broker.id, -1, endpoints, broker.rack)
