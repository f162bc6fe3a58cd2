"""A broker that is one of several: its controller tells it who leads what, ZooKeeper keeps topics, settings and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.broker.features import InvalidUpdateVersion
from milepost.broker.topology.protocols import NO_LEADER, Coordinator, Node, PartitionState, Reassignment, Topology
from milepost.coordinator.hashing import partition_of
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.metadata_cache import NO_CONTROLLER

if TYPE_CHECKING:
    from milepost.broker.cluster_topics import ClusterTopics
    from milepost.broker.internal_topics.replicated_topic import ReplicatedTopic
    from milepost.broker.slices import Work
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.member import Member
    from milepost.cluster.producer_id_blocks import ProducerIdBlocks
    from milepost.cluster.told import ToldCluster
    from milepost.cluster.view import TopicState
    from milepost.topic_partition import TopicPartition

GROUP = 0


class Clustered(Protocol):
    """What a broker in a cluster has besides what every broker has."""

    @property
    def cluster(self) -> ToldCluster: ...
    @property
    def member(self) -> Member: ...
    @property
    def controller(self) -> Controller | None: ...
    @property
    def producer_ids(self) -> ProducerIdBlocks: ...
    @property
    def topics(self) -> ClusterTopics: ...
    @property
    def offsets_topic(self) -> ReplicatedTopic: ...
    @property
    def transactions_topic(self) -> ReplicatedTopic: ...


def topology(broker: Clustered) -> Topology:
    return Topology(
        ToldView(broker.cluster),
        broker.producer_ids,
        LeadingCoordinators(broker),
        FixedFeatures(),
        StoredQuotas(broker.member),
        ControllersTopics(broker),
    )


class ToldView:
    def __init__(self, cluster: ToldCluster):
        self._cluster = cluster

    @property
    def controller_id(self) -> int:
        known = self._cluster.controller_id
        return known if known in self._cluster.brokers else NO_CONTROLLER

    def brokers(self, listener: str) -> list[Node]:
        found = [(each, each.endpoint(listener)) for each in self._cluster.brokers.values()]
        return [Node(each.broker_id, end.host, end.port, each.rack) for each, end in found if end is not None]

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


class StoredQuotas:
    def __init__(self, member: Member):
        self._member = member

    def refreshing(self) -> Work[None]:
        yield self._member.with_fresh_quotas


class ControllersTopics:
    def __init__(self, broker: Clustered):
        self._broker = broker

    @property
    def refusal(self) -> int:
        return ErrorCode.NOT_CONTROLLER if self._broker.controller is None else ErrorCode.NONE

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        controller = self._broker.controller
        if controller is None:
            return {}
        found = ((name, controller.context.assignment(name)) for name in controller.context.reassigned)
        return {name: Reassignment(each.replicas, each.adding, each.removing) for name, each in found}
