"""Coordinators in a cluster: whoever leads a partition of `__consumer_offsets` or `__transaction_state` coordinates what belongs to it.

A leader reads the partition when it is made leader, and forgets it when another one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.coordinators import Coordinators
from milepost.log.partition_name import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.replica.replicated import ReplicatedPartition


class ClusterCoordinators(Coordinators):
    _broker: ClusteredBroker

    def __init__(self, broker: ClusteredBroker):
        super().__init__(broker)

    def _load(self) -> None:
        """Those that are led already: this may come long after the controller's word."""
        for name, partition in self._broker.replicas.partitions.items():
            if partition.fault() == 0:
                self._load_one(name, partition.leader_epoch)

    def leads(self, partition: ReplicatedPartition) -> None:
        if partition.name.topic in (self._broker.offsets_topic.name, self._broker.transactions_topic.name):
            if self._groups is None:
                self.make()
            else:
                self._load_one(partition.name, partition.leader_epoch)

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
