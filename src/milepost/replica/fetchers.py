"""The fetchers of this broker: `num.replica.fetchers` for each leader it follows, partitions spread over them by name.

A leader that is not known to be alive is not fetched from; when the metadata says where it is, the partitions that wait for it are taken
up (`leaders_changed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from milepost.clock import Clock
from milepost.errors import MilepostError
from milepost.loop import Timers
from milepost.replica.fetcher import Fetcher, FetcherSettings
from milepost.replica.following import Following
from milepost.replica.metadata import BrokerInfo
from milepost.replica.partition import Partition
from milepost.replica.peers import Peers
from milepost.replica.replication_quota import ReplicationQuota
from milepost.topic_partition import TopicPartition


class Fetchers:
    def __init__(
        self,
        settings: FetcherSettings,
        peers: Peers,
        timers: Timers,
        clock: Clock,
        brokers: Callable[[], Mapping[int, BrokerInfo]],
        broker_epoch: Callable[[], int],
        on_progress: Callable[[TopicPartition, int], object],
        on_failed: Callable[[TopicPartition, MilepostError], object],
        quota: ReplicationQuota,
        count: int = 1,
    ):
        self.settings = settings
        self.count = count
        self._peers = peers
        self._timers = timers
        self._clock = clock
        self._brokers = brokers
        self._broker_epoch = broker_epoch
        self._on_progress = on_progress
        self._on_failed = on_failed
        self._quota = quota
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._of: dict[TopicPartition, Fetcher] = {}
        self._waiting: dict[TopicPartition, Partition] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader, from now on."""
        self.remove(partition.name)
        leader = self._brokers().get(partition.leader_id)
        if leader is None:
            self._waiting[partition.name] = partition
            return
        fetcher = self._fetcher(leader, number_of(partition.name, self.count))
        self._of[partition.name] = fetcher
        fetcher.add(partition.name, Following(partition.log, partition.topic_id, partition.leader_epoch))

    def _fetcher(self, leader: BrokerInfo, number: int) -> Fetcher:
        fetcher = self._fetchers.get((leader.broker_id, number))
        if fetcher is not None and fetcher.leader.endpoints != leader.endpoints:
            self._restart(leader)
            fetcher = self._fetchers.get((leader.broker_id, number))
        if fetcher is None:
            fetcher = self._fetchers[leader.broker_id, number] = Fetcher(
                leader,
                number,
                self.settings,
                self._peers,
                self._timers,
                self._clock,
                self._broker_epoch,
                self._on_progress,
                self._failed,
                self._quota,
            )
        return fetcher

    def _restart(self, leader: BrokerInfo) -> None:
        """The leader is somewhere else now: what was fetched from it goes on there."""
        for key in [key for key in self._fetchers if key[0] == leader.broker_id]:
            old = self._fetchers.pop(key)
            moved = dict(old.partitions)
            old.close()
            for name, following in moved.items():
                fetcher = self._fetcher(leader, key[1])
                self._of[name] = fetcher
                fetcher.add(name, following)

    def _failed(self, name: TopicPartition, error: MilepostError) -> None:
        self._of.pop(name, None)
        self._on_failed(name, error)

    def remove(self, name: TopicPartition) -> None:
        self._waiting.pop(name, None)
        fetcher = self._of.pop(name, None)
        if fetcher is not None:
            fetcher.remove(name)
            if not fetcher.partitions:
                fetcher.close()
                self._fetchers = {key: each for key, each in self._fetchers.items() if each is not fetcher}

    def leaders_changed(self) -> None:
        """The list of live brokers is another."""
        brokers = self._brokers()
        for leader_id in {key[0] for key in self._fetchers} & brokers.keys():
            known = next(each for key, each in self._fetchers.items() if key[0] == leader_id)
            if known.leader.endpoints != brokers[leader_id].endpoints:
                self._restart(brokers[leader_id])
        for partition in [each for each in self._waiting.values() if each.leader_id in brokers]:
            self.follow(partition)

    @property
    def max_lag(self) -> int:
        """How many committed records the partition that is furthest behind is missing."""
        fetched = [following for fetcher in list(self._fetchers.values()) for following in list(fetcher.partitions.values())]
        return max((following.lag or 0 for following in fetched), default=0)

    def close(self) -> None:
        for fetcher in list(self._fetchers.values()):
            fetcher.close()
        self._fetchers.clear()
        self._of.clear()
        self._waiting.clear()


def number_of(name: TopicPartition, count: int) -> int:
    return crc32(f"{name.topic}-{name.partition}".encode()) % count
