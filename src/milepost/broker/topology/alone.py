"""A broker that is the whole cluster: it leads everything and needs no other. Its metadata lies beside its logs (`cluster/solo`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from milepost.broker.features import TRANSACTION_VERSION, level_of
from milepost.broker.topology.alone_configs import AloneConfigs, AloneQuotas, AloneScramUsers
from milepost.broker.topology.protocols import HERE, BrokersFetch, Coordinator, Node, PartitionState, Topology
from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.broker.telemetry.replication_metrics import SingleBrokerReplicationMetrics
    from milepost.broker.topology.alone_topics import AloneTopics
    from milepost.cluster.solo import SoloCluster
    from milepost.cluster.view import TopicState
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.net.channel import Channel
    from milepost.protocol.messages import FetchRequest, FetchResponse
    from milepost.replica.partition import Partition
    from milepost.topic_partition import TopicPartition


def topology(parts: Parts, cluster: SoloCluster, topics: AloneTopics) -> Topology:
    acls: AloneAcls | None = None
    if cluster.acls is not None:
        from milepost.broker.topology.alone_acls import AloneAcls  # of brokers that have an authorizer

        acls = AloneAcls(cluster.acls, topics)
    return Topology(
        AloneView(parts),
        NoPeers(),
        NoFollowers(),
        AloneProducerIds(cluster),
        AloneCoordinators(parts),
        AloneFeatures(parts, cluster),
        AloneConfigs(parts, cluster, topics),
        AloneQuotas(cluster, topics),
        AloneScramUsers(cluster, topics),
        topics,
        acls,
    )


class AloneView:
    is_controller = True

    def __init__(self, parts: Parts):
        self._parts = parts

    @property
    def controller_id(self) -> int:
        return self._parts.node_id

    def brokers(self, listener: str) -> list[Node]:
        return [Node(self._parts.node_id, *self._parts.advertised(listener), self._parts.config.broker_rack)]

    def hearing(self) -> Work[None]:
        yield from ()

    def partition(self, topic: TopicState, number: int, listener: str) -> PartitionState | None:
        """One that is not here has no leader: a client that saw fewer partitions would take their number for that of the topic."""
        found = self._parts.replicas.partition_of(topic.name, number)
        if found is None:
            own = (self._parts.node_id,)
            return PartitionState(ErrorCode.LEADER_NOT_AVAILABLE, replicas=own, offline=own)
        return PartitionState(
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            replicas=tuple(found.replicas),
            isr=tuple(found.in_sync_replicas),
        )

    def missing_partition(self, name: TopicPartition) -> int:
        cluster, logs = self._parts.cluster, self._parts.logs
        if logs.offline and cluster.has_partition(name.topic, name.partition):
            return ErrorCode.KAFKA_STORAGE_ERROR  # no directory that is online could take it
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        return HERE

    def replication_metrics(self) -> SingleBrokerReplicationMetrics:
        from milepost.broker.telemetry.replication_metrics import SingleBrokerReplicationMetrics  # only when metrics are served

        return SingleBrokerReplicationMetrics(self._parts.replicas, self._parts.cluster)


class NoFollowers:
    """A fetch that says it is another broker's: there is none."""

    def answer(self, request: FetchRequest, context: BrokersFetch) -> FetchResponse:
        from milepost.broker.fetch.replica_id import refuse_follower  # which is where this comes from

        return refuse_follower(request, context.version)


class NoPeers:
    def is_broker(self, channel: Channel) -> bool:
        return False


class AloneProducerIds:
    def __init__(self, cluster: SoloCluster):
        self._cluster = cluster

    def when_available(self, ready: Callable[[], object]) -> None:
        ready()

    def take(self) -> int:
        return self._cluster.allocate_producer_id()


class AloneCoordinators:
    def __init__(self, parts: Parts):
        self._parts = parts

    def find(self, key_type: int, key: str, listener: str) -> Coordinator:
        return Coordinator(ErrorCode.NONE, "", self._parts.node_id, *self._parts.advertised(listener))

    def admit(
        self,
        admission: Admission,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        from milepost.coordinator.transactions.transaction_admission import admit  # which is where `admission` comes from

        admit(self._parts.transactions, admission, transactional_id, producer, partitions, answer)


class AloneFeatures:
    def __init__(self, parts: Parts, cluster: SoloCluster):
        self._parts = parts
        self._cluster = cluster

    def ensure_movable(self) -> None:
        """They are."""

    def move(self, levels: Mapping[str, int]) -> None:
        changed = {name: level for name, level in levels.items() if level != level_of(self._cluster, name)}
        if changed:
            self._cluster.update_features(changed)
            self._parts.transactions.use_transaction_version(level_of(self._cluster, TRANSACTION_VERSION))
