"""What handlers of requests in a cluster may use of their broker besides what every broker has (`parts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.broker.parts import Parts

if TYPE_CHECKING:
    from milepost.broker.cluster_topics import ClusterTopics
    from milepost.broker.configs.cluster_settings import ClusterSettings
    from milepost.broker.internal_topics.replicated_topic import ReplicatedTopic
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.member import Member
    from milepost.cluster.producer_id_blocks import ProducerIdBlocks
    from milepost.cluster.told import ToldCluster
    from milepost.protocol.messages import UpdateMetadataRequest
    from milepost.replica.broker_proof import BrokerProof
    from milepost.replica.metadata import BrokerInfo, Endpoint
    from milepost.replica.replication_quota import ReplicationQuotas
    from milepost.replica.roles import Roles


class ClusterParts(Parts, Protocol):
    @property
    def cluster(self) -> ToldCluster: ...
    @property
    def broker_listeners(self) -> set[str]: ...
    @property
    def proof(self) -> BrokerProof: ...
    @property
    def member(self) -> Member: ...
    @property
    def roles(self) -> Roles: ...
    @property
    def replication_quotas(self) -> ReplicationQuotas: ...
    @property
    def producer_ids(self) -> ProducerIdBlocks: ...
    @property
    def topics(self) -> ClusterTopics: ...
    @property
    def settings(self) -> ClusterSettings: ...
    @property
    def offsets_topic(self) -> ReplicatedTopic: ...
    @property
    def transactions_topic(self) -> ReplicatedTopic: ...
    @property
    def controller(self) -> Controller | None:
        """While this broker is it, and knows what there is."""

    @property
    def controller_id(self) -> int: ...
    def neighbours(self, listener: str) -> list[tuple[BrokerInfo, Endpoint]]:
        """All live brokers, and where clients of a listener reach them."""

    def take_metadata(self, request: UpdateMetadataRequest) -> None:
        """An UpdateMetadata that is not old."""
