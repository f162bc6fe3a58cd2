"""A partition with followers on a broker that has none: what a cluster would do is done by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from milepost.broker.broker import Broker
from milepost.replica.leadership import LeaderState
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition
from tests.broker.on_loop import on_loop


class NoChanges:
    """Of the in-sync replicas."""

    def propose(
        self, log: Any, state: LeaderState, isr: frozenset[int], epochs: Mapping[int, int], done: Callable[..., object]
    ) -> None:
        pass

    def may_join(self, broker_id: int) -> bool:
        return False


class Replicated:
    """`name` on this broker, led with a follower, 2, that has nothing yet."""

    def __init__(self, broker: Broker, name: TopicPartition, isr: tuple[int, ...] = (1, 2)):
        self.broker = broker
        self.name = name
        self.is_fenced = False
        self.partition = on_loop(broker, lambda: self._take_over(isr))

    def _take_over(self, isr: tuple[int, ...]) -> Partition:
        replicas = self.broker.replicas
        old = replicas.partitions[self.name]
        partition = Partition(old.log, old.topic_id, 1, old.topic_metrics, replicas, lambda: self.is_fenced)
        partition.lead(LeaderState(7, frozenset(isr), (1, 2), 0), NoChanges(), 10_000)
        old.is_online = False
        replicas.partitions[self.name] = partition
        return partition

    def fetched(self, offset: int) -> None:
        """The follower has everything before it."""

        def fetched() -> None:
            leadership = self.partition.leadership
            assert leadership is not None
            if leadership.fetched(2, offset, 0, self.broker.clock.now_ms()):
                self.broker.replicas.purgatory.check(self.partition.committed_key)

        on_loop(self.broker, fetched)

    def follow(self) -> None:
        """Broker 2 leads it now."""

        def follow() -> None:
            self.partition.follow(2, LeaderState(8, frozenset([1, 2]), (1, 2), 1))
            self.broker.replicas.purgatory.check(self.partition.committed_key)

        on_loop(self.broker, follow)
