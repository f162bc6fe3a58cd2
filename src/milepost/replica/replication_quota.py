"""How fast replicas that are behind may be brought up, so that a move leaves room for everybody else (KIP-73).

Two limits in bytes a second, each with the partitions that it is for:

| side | rate, of a broker | partitions, of a topic |
|---|---|---|
| leader: what goes out | `leader.replication.throttled.rate` | `leader.replication.throttled.replicas` |
| follower: what comes in | `follower.replication.throttled.rate` | `follower.replication.throttled.replicas` |

The partitions are `*`, or `partition:broker` for each replica: only those of this broker concern it.

All bytes of these partitions count, for any replica; what waits when there was too much are the replicas that are behind. One that is
in sync is never held up: producers wait for it. Nothing is cut to size: the next fetch goes without the partition until the rate is below
the limit again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.metrics.windowed_rate import WindowedRate
from milepost.topic_partition import TopicPartition

ALL = None
"""Of a topic: all its partitions."""


class ReplicationQuota:
    def __init__(self, broker_id: int, limit: int, rate: WindowedRate):
        self.limit = limit
        self._broker_id = broker_id
        self._rate = rate
        self._partitions: dict[str, frozenset[int] | None] = {}

    def throttle(self, topic: str, replicas: Sequence[str]) -> None:
        """Hold up these replicas of a topic from now on, and no others."""
        if "*" in replicas:
            self._partitions[topic] = ALL
            return
        pairs = [each.split(":") for each in replicas]
        ours = frozenset(int(number) for number, broker_id in pairs if int(broker_id) == self._broker_id)
        if ours:
            self._partitions[topic] = ours
        else:
            self._partitions.pop(topic, None)

    def forget(self, topic: str) -> None:
        self._partitions.pop(topic, None)

    @property
    def is_in_use(self) -> bool:
        """Whether anything is throttled at all; nearly never, so this is looked at first."""
        return bool(self._partitions)

    def is_throttled(self, name: TopicPartition) -> bool:
        """Whether this partition counts, and may have to wait."""
        if name.topic not in self._partitions:
            return False
        numbers = self._partitions[name.topic]
        return numbers is ALL or name.partition in numbers

    def record(self, size: int) -> None:
        """So many bytes of such partitions were sent or received."""
        self._rate.record(size)

    @property
    def byte_rate(self) -> float:
        """What such partitions took per second, lately."""
        return self._rate.per_second

    @property
    def is_exceeded(self) -> bool:
        return self.byte_rate > self.limit


class ReplicationQuotas:
    def __init__(self, broker_id: int, config: BrokerConfig, now_ms: Callable[[], int]):
        windows, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self.leader = ReplicationQuota(
            broker_id, config.leader_replication_throttled_rate, WindowedRate(now_ms, windows, window_ms)
        )
        self.follower = ReplicationQuota(
            broker_id, config.follower_replication_throttled_rate, WindowedRate(now_ms, windows, window_ms)
        )

    def use_rates(self, config: BrokerConfig) -> None:
        self.leader.limit = config.leader_replication_throttled_rate
        self.follower.limit = config.follower_replication_throttled_rate

    def use_topic(self, topic: str, config: LogConfig) -> None:
        self.leader.throttle(topic, config.leader_replication_throttled_replicas)
        self.follower.throttle(topic, config.follower_replication_throttled_replicas)

    def forget_topic(self, topic: str) -> None:
        self.leader.forget(topic)
        self.follower.forget(topic)
