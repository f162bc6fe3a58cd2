"""Metrics of replicas and of the controller, computed when they are read.

`SingleBrokerReplicationMetrics` is for a broker without others: nothing can lag behind, and it is the controller.
`ClusterReplicationMetrics` is for one of several. As in Kafka, what only the controller knows is 0 everywhere else, so that the
sum over all brokers is right; its counts begin anew with each term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.metrics.histogram import Histogram

if TYPE_CHECKING:
    from milepost.cluster.controller.context import ControllerContext
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.member import ClusterMember
    from milepost.cluster.view import ClusterView
    from milepost.replica.counted_isr_changes import CountedIsrChanges
    from milepost.replica.fetchers import Fetchers
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.replication_quota import ReplicationQuotas


class ReplicationFacts(Protocol):
    # This broker's own.

    @property
    def isr_shrinks(self) -> int: ...
    @property
    def isr_expands(self) -> int: ...
    @property
    def failed_isr_updates(self) -> int: ...
    @property
    def max_lag(self) -> int: ...
    @property
    def leader_byte_rate(self) -> float: ...
    @property
    def follower_byte_rate(self) -> float: ...
    @property
    def unreadable_znodes(self) -> int: ...

    # The controller's.

    @property
    def offline_partitions(self) -> int: ...
    @property
    def imbalanced_partitions(self) -> int: ...
    @property
    def topics(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    @property
    def unclean_elections(self) -> int: ...
    @property
    def election_times(self) -> Histogram: ...


class SingleBrokerReplicationMetrics:
    isr_shrinks = isr_expands = failed_isr_updates = 0
    max_lag = 0
    leader_byte_rate = follower_byte_rate = 0.0
    imbalanced_partitions = 0
    unclean_elections = 0
    unreadable_znodes = 0

    def __init__(self, replicas: ReplicaManager, cluster: ClusterView):
        self.election_times = Histogram()
        self._replicas = replicas
        self._cluster = cluster

    @property
    def offline_partitions(self) -> int:
        return sum(part.log.is_failed for part in list(self._replicas.partitions.values()))

    @property
    def topics(self) -> int:
        return len(self._cluster.topics)

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in list(self._cluster.topics.values()))


class Replicating(Protocol):
    """What a broker in a cluster has that is counted here."""

    @property
    def isr_changes(self) -> CountedIsrChanges: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def fetchers(self) -> Fetchers: ...
    @property
    def replication_quotas(self) -> ReplicationQuotas: ...
    @property
    def controller(self) -> Controller | None: ...


class ClusterReplicationMetrics:
    def __init__(self, broker: Replicating):
        self._broker = broker

    # This broker's own.

    @property
    def isr_shrinks(self) -> int:
        return self._broker.isr_changes.shrinks

    @property
    def unreadable_znodes(self) -> int:
        return self._broker.member.unreadable_znodes

    @property
    def isr_expands(self) -> int:
        return self._broker.isr_changes.expands

    @property
    def failed_isr_updates(self) -> int:
        return self._broker.isr_changes.failures

    @property
    def max_lag(self) -> int:
        return self._broker.fetchers.max_lag

    @property
    def leader_byte_rate(self) -> float:
        return self._broker.replication_quotas.leader.byte_rate

    @property
    def follower_byte_rate(self) -> float:
        return self._broker.replication_quotas.follower.byte_rate

    # The controller's.

    @property
    def _context(self) -> ControllerContext | None:
        controller = self._broker.controller
        return None if controller is None else controller.context

    @property
    def offline_partitions(self) -> int:
        context = self._context
        if context is None:
            return 0
        led = [(partition, state.leader) for partition, state in list(context.leadership.items())]
        return sum(not context.is_reachable(leader, partition) for partition, leader in led if not context.is_deleting(partition))

    @property
    def imbalanced_partitions(self) -> int:
        context = self._context
        if context is None:
            return 0
        led = [(partition, state.leader) for partition, state in list(context.leadership.items())]
        return sum(
            context.replicas_of(partition)[:1] != (leader,) for partition, leader in led if not context.is_deleting(partition)
        )

    @property
    def topics(self) -> int:
        return 0 if self._context is None else len(self._context.topic_ids)

    @property
    def partitions(self) -> int:
        return 0 if self._context is None else len(list(self._context.partitions))

    @property
    def unclean_elections(self) -> int:
        return 0 if self._context is None else self._context.unclean_elections

    @property
    def election_times(self) -> Histogram:
        return self._broker.member.election_times.histogram
