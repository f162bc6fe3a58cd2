"""What the parts of a controller share during one term: its context, the requests to brokers, and the two state machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.cluster.controller.broker_channels import BrokerChannels
from milepost.cluster.controller.broker_requests import BrokerRequests
from milepost.cluster.controller.context import ControllerContext
from milepost.cluster.controller.partition_states import PartitionStates
from milepost.cluster.controller.replica_states import ReplicaStates
from milepost.cluster.controller_election import Term
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.loop import Timers
from milepost.replica.peers import Peers


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    broker_id: int
    versions: ProtocolVersions
    inter_broker_listener: str
    unclean_leader_election: Callable[[], bool] = lambda: False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_seconds: float = 300.0
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_enable: bool = True


class ControllerParts:
    def __init__(self, term: Term, settings: ControllerSettings, peers: Peers, timers: Timers):
        self.settings = settings
        self.context = ControllerContext(term)
        self.channels = BrokerChannels(peers, timers)
        self.requests = BrokerRequests(
            self.context, self.channels, settings.versions, settings.broker_id, settings.inter_broker_listener
        )
        self.partitions = PartitionStates(self.context, self.requests, unclean_by_default=settings.unclean_leader_election)
        self.replicas = ReplicaStates(self.context, self.requests)

    @property
    def term(self) -> Term:
        return self.context.term
