"""What a cluster says about itself: its brokers, its topics, and who leads each partition. As of the moment it was asked."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.client.addresses import Address
from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.protocol.messages import MetadataResponse

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    topic_id: bytes
    """16 bytes; all zero from a broker that has no topic ids."""
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    """By rising number."""
    error_code: int = ErrorCode.NONE

    @property
    def topic_id_text(self) -> str:
        """As Kafka's tools write it; empty when there is none."""
        return base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=") if any(self.topic_id) else ""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    cluster_id: str | None
    controller_id: int
    nodes: dict[int, Node]
    topics: dict[str, TopicInfo]


def from_response(response: MetadataResponse) -> ClusterInfo:
    return ClusterInfo(
        response.cluster_id,
        response.controller_id,
        {row.node_id: Node(row.node_id, Address(row.host, row.port), row.rack) for row in response.brokers},
        {row.name: _topic(row) for row in response.topics if row.name is not None},
    )


def _topic(row: MetadataResponse.Topic) -> TopicInfo:
    partitions = [
        PartitionInfo(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            tuple(part.replica_nodes),
            tuple(part.isr_nodes),
            tuple(part.offline_replicas),
            part.error_code,
        )
        for part in row.partitions
    ]
    partitions.sort(key=lambda part: part.partition)
    return TopicInfo(row.name or "", row.topic_id, row.is_internal, tuple(partitions), row.error_code)
