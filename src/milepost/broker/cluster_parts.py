"""What handlers of requests between brokers (`inter_broker`) may use of theirs besides what every broker has (`parts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.broker.parts import Parts

if TYPE_CHECKING:
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.member import Member
    from milepost.cluster.told import ToldCluster
    from milepost.protocol.messages import UpdateMetadataRequest
    from milepost.replica.broker_proof import BrokerProof
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
    def controller(self) -> Controller | None:
        """While this broker is it, and knows what there is."""

    def take_metadata(self, request: UpdateMetadataRequest) -> None:
        """An UpdateMetadata that is not old."""
