"""What handlers of requests between brokers (`inter_broker`) may use of theirs besides what every broker has (`parts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.broker.parts import Parts

if TYPE_CHECKING:
    from milepost.broker.slices import Work
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.protocol.messages import UpdateMetadataRequest
    from milepost.replica.broker_proof import BrokerProof
    from milepost.replica.leader_and_isr import LeaderAndIsrHandler
    from milepost.replica.replication_quota import ReplicationQuotas
    from milepost.work import Turn


class ClusterParts(Parts, Protocol):
    @property
    def cluster(self) -> ControllerMetadata: ...
    @property
    def broker_listeners(self) -> set[str]: ...
    @property
    def proof(self) -> BrokerProof: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def turn_of_controller(self) -> Turn:
        """What controllers say is done in the order in which it came, one after the other."""

    @property
    def leader_and_isr(self) -> LeaderAndIsrHandler: ...
    @property
    def replication_quotas(self) -> ReplicationQuotas: ...
    @property
    def controller(self) -> Controller | None:
        """While this broker is it, and knows what there is."""

    def taking_metadata(self, request: UpdateMetadataRequest) -> Work[None]:
        """An UpdateMetadata that is not old."""
