"""What a controller knows: brokers, topics, who leads, and the state of every partition and replica. Data only; the rest acts on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.controller_election import Term
from milepost.cluster.zookeeper.znodes import Assignment, PartitionState
from milepost.replica.metadata import BrokerInfo
from milepost.topic_partition import TopicPartition

EMPTY = Assignment(())


class Replica(NamedTuple):
    partition: TopicPartition
    broker_id: int


class ControllerContext:
    def __init__(self, term: Term):
        self.term = term
        self.brokers: dict[int, BrokerInfo] = {}
        self.shutting_down: set[int] = set()
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        """Partitions that a live broker cannot serve, because their directory failed."""
        self.topic_ids: dict[str, str | None] = {}
        """Every topic, with its id where it has one."""
        self.assignments: dict[str, dict[int, Assignment]] = {}
        self.leadership: dict[TopicPartition, PartitionState] = {}
        self.partition_status: dict[TopicPartition, PartitionStatus] = {}
        self.replica_status: dict[Replica, ReplicaStatus] = {}
        self.deleting: set[str] = set()
        self.deletion_started: set[str] = set()
        self.ineligible: set[str] = set()
        """Topics that cannot be deleted for now: a replica is on a dead broker, or moves."""
        self.unclean_elections = 0

    # Brokers.

    @property
    def live_ids(self) -> set[int]:
        """Those that can be given something to lead."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker_id: int, partition: TopicPartition) -> bool:
        return broker_id in self.live_ids and partition not in self.offline_directories.get(broker_id, ())

    def is_reachable(self, broker_id: int, partition: TopicPartition) -> bool:
        """Also while it is shutting down."""
        return broker_id in self.brokers and partition not in self.offline_directories.get(broker_id, ())

    # Assignments.

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        for topic, numbers in self.assignments.items():
            for number in numbers:
                yield TopicPartition(topic, number)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in self.assignments.get(topic, ())]

    def assignment(self, partition: TopicPartition) -> Assignment:
        return self.assignments.get(partition.topic, {}).get(partition.partition, EMPTY)

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        wanted = set(broker_ids)
        return [
            Replica(partition, broker_id)
            for partition in self.partitions
            for broker_id in self.replicas_of(partition)
            if broker_id in wanted
        ]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return [Replica(partition, each) for partition in self.partitions_of(topic) for each in self.replicas_of(partition)]

    @property
    def reassigned(self) -> list[TopicPartition]:
        return [partition for partition in self.partitions if self.assignment(partition).is_reassigned]

    def forget_topic(self, topic: str) -> None:
        for partition in self.partitions_of(topic):
            self.leadership.pop(partition, None)
            self.partition_status.pop(partition, None)
        for replica in [replica for replica in self.replica_status if replica.partition.topic == topic]:
            del self.replica_status[replica]
        self.assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for named in (self.deleting, self.deletion_started, self.ineligible):
            named.discard(topic)

    # Deletion.

    def is_deleting(self, partition: TopicPartition) -> bool:
        return partition.topic in self.deleting

    def topics_with_replicas(self, replicas: Iterable[Replica]) -> set[str]:
        return {replica.partition.topic for replica in replicas}
