"""The coordinators of a broker: groups, consumer groups of the newer protocol, transactions.

They are made when they are first asked for, at the latest right after the start: a client that only produces and fetches is
answered before their modules are even loaded, in two thirds of the time. Where there is something for them to read (their topics
exist) they are made, and have read it, before the first client is.

A broker that is alone coordinates everything. In a cluster whoever leads a partition of `__consumer_offsets` or `__transaction_state`
coordinates what belongs to it: it reads the partition when it is made leader, and forgets it when another one is. It reads when everything
that it found in its log is on all in-sync replicas: what the leader before it wrote and never acknowledged may be lost with this one, and
whoever had been answered from it would count on something that never was. Until then clients are told to wait (14
COORDINATOR_LOAD_IN_PROGRESS). Kafka reads at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from milepost.broker.features import TRANSACTION_VERSION, level_of

if TYPE_CHECKING:
    from milepost.broker.internal_topics.coordinator_log import InternalTopic
    from milepost.clock import Clock
    from milepost.cluster.view import ClusterView
    from milepost.config.broker import BrokerConfig
    from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.pending_markers import WriteMarkers
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from milepost.loop import Loop
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition
    from milepost.topic_partition import TopicPartition

SOON = 0.1
COMMITTED_YET_SECONDS = 0.01


class Coordinating(Protocol):
    """What coordinators are made of."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def offsets_topic(self) -> InternalTopic: ...
    @property
    def transactions_topic(self) -> InternalTopic: ...
    @property
    def write_markers(self) -> WriteMarkers: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    def allocate_producer_id(self) -> int: ...


class Coordinators:
    def __init__(self, broker: Coordinating, *, is_alone: bool):
        self._broker = broker
        self._is_alone = is_alone
        self._groups: GroupCoordinator | None = None
        self._consumer_groups: ConsumerGroups | None = None
        self._transactions: TransactionCoordinator | None = None

    @property
    def groups(self) -> GroupCoordinator:
        self.make()
        assert self._groups is not None
        return self._groups

    @property
    def consumer_groups(self) -> ConsumerGroups:
        self.make()
        assert self._consumer_groups is not None
        return self._consumer_groups

    @property
    def transactions(self) -> TransactionCoordinator:
        self.make()
        assert self._transactions is not None
        return self._transactions

    def start(self) -> None:
        """Now, if they have something to read; else soon."""
        if self._broker.offsets_topic.exists or self._broker.transactions_topic.exists:
            self.make()
        else:
            self._broker.loop.later(SOON, self.make)

    def topics_changed(self) -> None:
        if self._consumer_groups is not None:
            self._consumer_groups.on_topics_changed()

    def use_config(self) -> None:
        """What the broker's configuration says now, of what may change while it runs."""
        groups = self._consumer_groups
        if groups is not None:
            interval_ms = self._broker.config.group_consumer_assignment_interval_ms
            groups.use_settings(replace(groups.settings, assignment_interval_ms=interval_ms))

    def close(self) -> None:
        if self._groups is not None:
            self._groups.close()
        if self._transactions is not None:
            self._transactions.close()

    def make(self) -> None:
        if self._groups is not None:
            return
        # Here and not at the top: loading them is a third of the start.
        from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
        from milepost.coordinator.consumer.consumer_settings import ConsumerGroupSettings
        from milepost.coordinator.group.group_coordinator import GroupCoordinator
        from milepost.coordinator.group.group_settings import GroupSettings
        from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
        from milepost.coordinator.transactions.transaction_settings import TransactionSettings

        broker = self._broker
        config = broker.config
        self._groups = GroupCoordinator(
            broker.offsets_topic,
            broker.loop,
            broker.clock,
            broker.cluster,
            GroupSettings(
                min_session_timeout_ms=config.group_min_session_timeout_ms,
                max_session_timeout_ms=config.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                max_size=config.group_max_size,
                offset_metadata_max_bytes=config.offset_metadata_max_bytes,
                offsets_retention_ms=config.offsets_retention_minutes * 60_000,
                offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            ),
        )
        self._groups.consumer_groups = self._consumer_groups = ConsumerGroups(
            self._groups,
            broker.cluster,
            ConsumerGroupSettings(
                session_timeout_ms=config.group_consumer_session_timeout_ms,
                heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
                assignment_interval_ms=config.group_consumer_assignment_interval_ms,
                max_size=config.group_consumer_max_size,
                assignors=config.group_consumer_assignors,
                migration_policy=config.group_consumer_migration_policy,
            ),
        )
        self._transactions = TransactionCoordinator(
            broker.transactions_topic,
            broker.loop,
            broker.clock,
            broker.write_markers,
            broker.allocate_producer_id,
            TransactionSettings(
                max_timeout_ms=config.transaction_max_timeout_ms,
                id_expiration_ms=config.transactional_id_expiration_ms,
                abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
                transaction_version=level_of(broker.cluster, TRANSACTION_VERSION),
            ),
        )
        self._load()
        self._transactions.start()

    def _load(self) -> None:
        """What this broker coordinates already.

        In a cluster this may come long after the controller's word. Also when nothing may be done with a partition just now, because
        ZooKeeper has to be asked first: nobody says again that it is led.
        """
        assert self._groups is not None and self._transactions is not None
        if self._is_alone:
            self._groups.load_all()
            self._transactions.load_all()
        else:
            for partition in list(self._broker.replicas.partitions.values()):
                self._load_committed(partition, partition.leader_epoch)

    # In a cluster.

    def leads(self, partition: Partition) -> None:
        if partition.name.topic in (self._broker.offsets_topic.name, self._broker.transactions_topic.name):
            if self._groups is None:
                self.make()
            else:
                self._load_committed(partition, partition.leader_epoch)

    def _load_committed(self, partition: Partition, leader_epoch: int) -> None:
        leadership = partition.leadership
        if leadership is None or partition.leader_epoch != leader_epoch or not partition.is_online:
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
