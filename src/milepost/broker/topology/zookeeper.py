"""A broker that is one of several: its controller tells it who leads what, ZooKeeper keeps topics, settings and quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.broker.features import InvalidUpdateVersion
from milepost.broker.topology.protocols import NO_LEADER, Coordinator, Node, PartitionState, Topology
from milepost.broker.topology.zookeeper_configs import ZooKeeperConfigs, ZooKeeperQuotas
from milepost.coordinator.hashing import partition_of
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.metadata_cache import NO_CONTROLLER

if TYPE_CHECKING:
    from milepost.broker.configs.cluster_settings import ClusterSettings
    from milepost.broker.internal_topics.replicated_topic import ReplicatedTopic
    from milepost.broker.slices import Work
    from milepost.broker.topology.zookeeper_topics import ZooKeeperTopics
    from milepost.cluster.member import Member
    from milepost.cluster.producer_id_blocks import ProducerIdBlocks
    from milepost.cluster.told import ToldCluster
    from milepost.cluster.view import TopicState
    from milepost.net.channel import Channel
    from milepost.replica.broker_proof import BrokerProof
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.purgatory import Purgatory

GROUP = 0
BROKERS = "brokers"
"""What to wait for in the purgatory until the controller has said who is alive."""
HEARING_SECONDS = 5.0


class Clustered(Protocol):
    """What a broker in a cluster has besides what every broker has."""

    @property
    def proof(self) -> BrokerProof: ...
    @property
    def broker_listeners(self) -> set[str]: ...
    @property
    def cluster(self) -> ToldCluster: ...
    @property
    def member(self) -> Member: ...
    @property
    def producer_ids(self) -> ProducerIdBlocks: ...
    @property
    def topics(self) -> ZooKeeperTopics: ...
    @property
    def settings(self) -> ClusterSettings: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def offsets_topic(self) -> ReplicatedTopic: ...
    @property
    def transactions_topic(self) -> ReplicatedTopic: ...


def topology(broker: Clustered) -> Topology:
    return Topology(
        ToldView(broker.cluster, broker.member, broker.replicas.purgatory),
        ProvenPeers(broker.proof, broker.broker_listeners),
        broker.producer_ids,
        LeadingCoordinators(broker),
        FixedFeatures(),
        ZooKeeperConfigs(broker.member, broker.cluster, broker.settings),
        ZooKeeperQuotas(broker.member),
        broker.topics,
    )


class ToldView:
    def __init__(self, cluster: ToldCluster, member: Member, purgatory: Purgatory):
        self._cluster = cluster
        self._member = member
        self._purgatory = purgatory

    @property
    def is_controller(self) -> bool:
        return self._member.is_controller

    @property
    def controller_id(self) -> int:
        known = self._cluster.controller_id
        return known if known in self._cluster.brokers else NO_CONTROLLER

    def brokers(self, listener: str) -> list[Node]:
        found = [(each, each.endpoint(listener)) for each in self._cluster.brokers.values()]
        return [Node(each.broker_id, end.host, end.port, each.rack) for each, end in found if end is not None]

    def hearing(self) -> Work[None]:
        """One that has just started has heard of nobody, not even of itself."""
        if not self._cluster.brokers:
            yield lambda resume: self._purgatory.wait([BROKERS], lambda key: bool(self._cluster.brokers), resume, HEARING_SECONDS)

    def partition(self, topic: TopicState, number: int, listener: str) -> PartitionState | None:
        known = self._cluster.partition_info(topic.name, number)
        if known is None:
            return None
        leader = self._cluster.brokers.get(known.leader)
        is_led = leader is not None and leader.endpoint(listener) is not None
        return PartitionState(
            ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
            known.leader if is_led else NO_LEADER,
            known.leader_epoch,
            known.replicas,
            known.isr,
            known.offline,
        )


class ProvenPeers:
    """Connections that have proven to be a broker's; without a proof, where none is required, those on the listeners for brokers."""

    def __init__(self, proof: BrokerProof, listeners: Collection[str]):
        self._proof = proof
        self._listeners = listeners

    def is_broker(self, channel: Channel) -> bool:
        return channel.broker_id is not None or (not self._proof.is_required and channel.listener in self._listeners)


class LeadingCoordinators:
    """Whoever leads the key's partition of `__consumer_offsets` or `__transaction_state`. The first who asks has the topic made."""

    def __init__(self, broker: Clustered):
        self._broker = broker

    def find(self, key_type: int, key: str, listener: str) -> Coordinator:
        broker = self._broker
        topic = broker.offsets_topic if key_type == GROUP else broker.transactions_topic
        if not topic.exists:
            try:
                broker.topics.create_internal(topic)
            except MilepostError as error:
                return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} cannot be made: {error}")
            return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} is being made")
        number = partition_of(key, topic.partition_count)
        known = broker.cluster.partition_info(topic.name, number)
        leader = None if known is None else broker.cluster.brokers.get(known.leader)
        endpoint = None if leader is None else leader.endpoint(listener)
        if leader is None or endpoint is None:
            return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name}-{number} has no leader now")
        return Coordinator(ErrorCode.NONE, "", leader.broker_id, endpoint.host, endpoint.port)


class FixedFeatures:
    """The levels of features are those of Kafka with ZooKeeper, and nobody moves them."""

    def ensure_movable(self) -> None:
        raise InvalidUpdateVersion("the levels of features are fixed in a cluster with ZooKeeper")

    def move(self, levels: Mapping[str, int]) -> None:
        self.ensure_movable()
