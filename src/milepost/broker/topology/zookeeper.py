"""The topology of a cluster with ZooKeeper: the controller sends who leads what, ZooKeeper keeps topics, settings and quotas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.broker.features import InvalidUpdateVersion
from milepost.broker.fetch import follower, repeated_follower
from milepost.broker.fetch.follower import LeaderBroker
from milepost.broker.fetch.replica_id import refuse_follower, replica_id_of
from milepost.broker.internal_topics.remote_verification import ask_coordinator
from milepost.broker.telemetry.replication_metrics import ClusterReplicationMetrics, Replicating
from milepost.broker.topology.protocols import HERE, NO_LEADER, BrokersFetch, Coordinator, Node, PartitionState, Topology
from milepost.broker.topology.zookeeper_configs import ZooKeeperConfigs, ZooKeeperQuotas, ZooKeeperScramUsers
from milepost.coordinator.hashing import partition_of
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.metadata_cache import NO_CONTROLLER

if TYPE_CHECKING:
    from milepost.broker.configs.cluster_settings import ClusterSettings
    from milepost.broker.internal_topics.coordinator_log import InternalTopic
    from milepost.broker.slices import Work
    from milepost.broker.topology.zookeeper_acls import ZooKeeperAcls
    from milepost.broker.topology.zookeeper_topics import ZooKeeperTopics
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.cluster.producer_id_blocks import ProducerIdBlocks
    from milepost.cluster.view import TopicState
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from milepost.net.channel import Channel
    from milepost.protocol.messages import FetchRequest, FetchResponse
    from milepost.replica.broker_proof import BrokerProof
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.metadata import BrokerInfo
    from milepost.replica.partition import Partition
    from milepost.replica.peers import Peers
    from milepost.topic_partition import TopicPartition

GROUP = 0
BROKERS = "brokers"
"""What to wait for in the purgatory until the controller has said who is alive."""
HEARING_SECONDS = 5.0


class Clustered(LeaderBroker, Replicating, Protocol):
    """What a broker in a cluster has besides what every broker has."""

    @property
    def node_id(self) -> int: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
    @property
    def proof(self) -> BrokerProof: ...
    @property
    def broker_listeners(self) -> set[str]: ...
    @property
    def cluster(self) -> ControllerMetadata: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def producer_ids(self) -> ProducerIdBlocks: ...
    @property
    def topics(self) -> ZooKeeperTopics: ...
    @property
    def acls(self) -> ZooKeeperAcls | None: ...
    @property
    def settings(self) -> ClusterSettings: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def offsets_topic(self) -> InternalTopic: ...
    @property
    def transactions_topic(self) -> InternalTopic: ...


def topology(broker: Clustered) -> Topology:
    return Topology(
        ZooKeeperView(broker),
        ProvenPeers(broker.proof, broker.broker_listeners),
        FetchingFollowers(broker),
        broker.producer_ids,
        LeadingCoordinators(broker),
        FixedFeatures(),
        ZooKeeperConfigs(broker.member, broker.cluster, broker.settings),
        ZooKeeperQuotas(broker.member),
        ZooKeeperScramUsers(broker.member),
        broker.topics,
        broker.acls,
    )


class ZooKeeperView:
    def __init__(self, broker: Clustered):
        self._broker = broker
        self._cluster = broker.cluster
        self._member = broker.member
        self._purgatory = broker.replicas.purgatory

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
        """A broker that has just started has no metadata yet, not even its own."""
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

    def missing_partition(self, name: TopicPartition) -> int:
        known = self._cluster.has_partition(name.topic, name.partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        return nearest_replica(partition, rack, offset, self._cluster.node_id, self._cluster.brokers)

    def replication_metrics(self) -> ClusterReplicationMetrics:
        return ClusterReplicationMetrics(self._broker)


def nearest_replica(partition: Partition, rack: str, offset: int, leader_id: int, brokers: Mapping[int, BrokerInfo]) -> int:
    """The broker in a consumer's rack that is in sync and has what is asked for (KIP-392); HERE where the leader is as good as any.

    As Kafka's RackAwareReplicaSelector: the leader if it stands there itself, else the one that has most.
    """
    leader = brokers.get(leader_id)
    if partition.leadership is None:
        return HERE
    if leader is not None and leader.rack == rack:
        return HERE
    leadership = partition.leadership
    near = [
        replica
        for broker_id, replica in leadership.remote.items()
        if broker_id in leadership.state.isr
        and broker_id in brokers
        and brokers[broker_id].rack == rack
        and replica.start_offset <= offset <= replica.end_offset
    ]
    return max(near, key=lambda replica: replica.end_offset).broker_id if near else HERE


class FetchingFollowers:
    """A follower's fetch is taken from the very broker that it says it is of."""

    def __init__(self, broker: LeaderBroker):
        self._broker = broker

    def answer(self, request: FetchRequest, context: BrokersFetch) -> FetchResponse | None:
        if not context.speaks_for(replica_id_of(request)):
            return refuse_follower(request, context.version)
        response = follower.answer(request, context, self._broker)
        repeated_follower.remember(request, context, self._broker)
        return response


class ProvenPeers:
    """Connections that have proven to be a broker's; without a proof, where none is required, those on the listeners for brokers."""

    def __init__(self, proof: BrokerProof, listeners: Collection[str]):
        self._proof = proof
        self._listeners = listeners

    def is_broker(self, channel: Channel) -> bool:
        return channel.broker_id is not None or (not self._proof.is_required and channel.listener in self._listeners)


class LeadingCoordinators:
    """The leader of the key's partition of `__consumer_offsets` or `__transaction_state`. The first lookup creates the topic."""

    def __init__(self, broker: Clustered):
        self._broker = broker

    def find(self, key_type: int, key: str, listener: str) -> Coordinator:
        broker = self._broker
        topic = broker.offsets_topic if key_type == GROUP else broker.transactions_topic
        if not topic.exists:
            try:
                broker.topics.create_internal(topic)
            except MilepostError as error:
                return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} cannot be created: {error}")
            return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} is being created")
        number = partition_of(key, topic.partition_count)
        known = broker.cluster.partition_info(topic.name, number)
        leader = None if known is None else broker.cluster.brokers.get(known.leader)
        endpoint = None if leader is None else leader.endpoint(listener)
        if leader is None or endpoint is None:
            return Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name}-{number} has no leader at the moment")
        return Coordinator(ErrorCode.NONE, "", leader.broker_id, endpoint.host, endpoint.port)

    def admit(
        self,
        admission: Admission,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        broker = self._broker
        topic = broker.transactions_topic
        known = broker.cluster.partition_info(topic.name, partition_of(transactional_id, topic.partition_count))
        if known is not None and known.leader == broker.node_id:
            from milepost.coordinator.transactions.transaction_admission import admit  # which is where `admission` comes from

            admit(broker.transactions, admission, transactional_id, producer, partitions, answer)
        else:
            coordinator = None if known is None else broker.cluster.brokers.get(known.leader)
            ask_coordinator(broker.peers, coordinator, admission, transactional_id, producer, partitions, answer)


class FixedFeatures:
    """Feature levels are those of Kafka with ZooKeeper, and cannot be changed."""

    def ensure_movable(self) -> None:
        raise InvalidUpdateVersion("feature levels cannot be changed in a cluster with ZooKeeper")

    def move(self, levels: Mapping[str, int]) -> None:
        self.ensure_movable()
