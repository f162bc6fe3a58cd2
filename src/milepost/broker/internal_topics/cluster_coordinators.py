"""Coordinators in a cluster: whoever leads a partition of `__consumer_offsets` or `__transaction_state` coordinates what belongs to it.

A leader reads the partition when it is made leader, and forgets it when another one is. It reads when everything that it found in its log
is on all in-sync replicas: what the leader before it wrote and never acknowledged may be lost with this one, and whoever had been answered
from it would count on something that never was. Until then clients are told to wait (14 COORDINATOR_LOAD_IN_PROGRESS). Kafka reads at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.broker.internal_topics.coordinators import Coordinating, Coordinators
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition

COMMITTED_YET_SECONDS = 0.01


class CoordinatingInCluster(Coordinating, Protocol):
    @property
    def replicas(self) -> ReplicaManager: ...


class ClusterCoordinators(Coordinators):
    _broker: CoordinatingInCluster

    def __init__(self, broker: CoordinatingInCluster):
        super().__init__(broker)

    def _load(self) -> None:
        """Those that are led already: this may come long after the controller's word. Also when nothing may be done with them just now,
        because ZooKeeper has to be asked first: nobody says again that they are led."""
        for partition in list(self._broker.replicas.partitions.values()):
            self._load_committed(partition, partition.leader_epoch)

    def leads(self, partition: Partition) -> None:
        if partition.name.topic in (self._broker.offsets_topic.name, self._broker.transactions_topic.name):
            if self._groups is None:
                self.make()
            else:
                self._load_committed(partition, partition.leader_epoch)

    def _load_committed(self, partition: Partition, leader_epoch: int) -> None:
        leadership = partition.leadership
        if leadership is None or partition.leader_epoch != leader_epoch or not partition.is_hosted:
            return
        if partition.log.high_watermark >= leadership.start_offset:
            self._load_one(partition.name, leader_epoch)
        else:
            self._expect(partition.name)
            self._broker.loop.later(COMMITTED_YET_SECONDS, lambda: self._load_committed(partition, leader_epoch))

    def _expect(self, name: TopicPartition) -> None:
        if name.topic == self._broker.offsets_topic.name and self._groups is not None:
            self._groups.expect(name.partition)
        elif name.topic == self._broker.transactions_topic.name and self._transactions is not None:
            self._transactions.expect(name.partition)

    def _load_one(self, name: TopicPartition, leader_epoch: int) -> None:
        if name.topic == self._broker.offsets_topic.name and self._groups is not None:
            self._groups.load(name.partition)
        elif name.topic == self._broker.transactions_topic.name and self._transactions is not None:
            self._transactions.load(name.partition, leader_epoch)

    def lost(self, name: TopicPartition) -> None:
        if name.topic == self._broker.offsets_topic.name and self._groups is not None:
            self._groups.unload(name.partition)
        elif name.topic == self._broker.transactions_topic.name and self._transactions is not None:
            self._transactions.unload(name.partition)

    def topics_deleted(self, names: list[str]) -> None:
        if self._groups is not None:
            self._groups.topics_deleted(names)
