"""A replica that is moved under a throttle, over simulated time: it takes as long as the rate says, and holds up nobody who is in sync."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, SetData
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.simulation.cluster import Cluster

MOVED, IN_SYNC = TopicPartition("moved", 0), TopicPartition("steady", 0)
RATE = 5000
REPLICAS = {side: f"{side}.replication.throttled.replicas" for side in ("leader", "follower")}


class Move:
    """Partition 0 of `moved` has 100,000 bytes on broker 1 and is to be on 2 as well; `steady` is on both."""

    def __init__(self, version: str, configs: dict[str, str], rates: dict[str, str]):
        self.cluster = cluster = Cluster(0)
        cluster.versions = protocol_versions(version)
        for broker in cluster.brokers.values():
            broker.settings.update(
                {
                    "inter.broker.protocol.version": version,
                    "replica.fetch.max.bytes": 20_000,
                    "log.segment.bytes": 1 << 20,
                    "auto.leader.rebalance.enable": "false",
                    "min.insync.replicas": 1,
                    **rates,
                }
            )
            broker.start()
        cluster.world.run(1.0)
        for name, replicas in ((MOVED, (1,)), (IN_SYNC, (1, 2))):
            node = znodes.TopicNode({0: znodes.Assignment(replicas)}, None)
            cluster.write(
                Create(znodes.config_path("topics", name.topic), znodes.config(configs)),
                Create(znodes.topic_path(name.topic), znodes.topic(node, cluster.versions.topic_znode)),
            )
        self.run(3.0)
        for _ in range(100):
            self.append(MOVED)
        self.fetches = 0
        self.count_fetches()
        self.began = cluster.world.now
        cluster.reassign(MOVED, [1, 2])

    def append(self, name: TopicPartition) -> None:
        self.cluster.brokers[1].broker.replicas.append(name, build_batch([Record(0, 1, None, bytes(930))]))

    def count_fetches(self) -> None:
        leader = self.cluster.brokers[1]
        serve = leader.serve

        def counted(request: Any, *rest: Any) -> None:
            self.fetches += type(request).__name__ == "FetchRequest"
            serve(request, *rest)

        leader.serve = counted  # type: ignore[method-assign]

    def run(self, seconds: float) -> None:
        self.cluster.world.run(self.cluster.world.now + seconds)

    def end(self, broker_id: int, name: TopicPartition) -> int:
        partition = self.cluster.brokers[broker_id].partition(name)
        return partition.log.end_offset if partition else 0

    def until_equal(self) -> float:
        """The seconds that it took."""
        world = self.cluster.world
        while self.end(2, MOVED) < self.end(1, MOVED):
            assert world.now - self.began < 60
            self.run(0.05)
        return world.now - self.began


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_move_takes_as_long_as_its_rate_allows(side, version):
    move = Move(version, {REPLICAS[side]: "*"}, {f"{side}.replication.throttled.rate": str(RATE)})
    # 20 seconds; without the last 20,000 bytes, which need not be paid for before they go, and with what was not used before.
    assert 12 < move.until_equal() < 20
    assert move.fetches < 100, "a fetch that gets nothing waits, and so does one that may not be sent"


def test_move_without_a_throttle_is_over_at_once():
    assert Move("3.9", {}, {}).until_equal() < 1


def test_rate_alone_or_replicas_alone_hold_up_nothing():
    assert Move("3.9", {REPLICAS["leader"]: "*"}, {}).until_equal() < 1
    assert Move("3.9", {REPLICAS["leader"]: "0:2"}, {"leader.replication.throttled.rate": "1"}).until_equal() < 1


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replica_in_sync_is_not_held_up_meanwhile(side):
    move = Move("3.9", {REPLICAS[side]: "*"}, {f"{side}.replication.throttled.rate": str(RATE)})
    move.run(1.0)
    for _ in range(20):
        move.append(IN_SYNC)
        # A follower that left out everything looks again a second later.
        move.run(0.2)
        partition = move.cluster.brokers[1].partition(IN_SYNC)
        assert partition is not None
        assert partition.log.high_watermark == partition.log.end_offset == move.end(2, IN_SYNC)
    assert move.end(2, MOVED) < move.end(1, MOVED)


def test_throttle_that_is_taken_away_ends_the_wait():
    move = Move("3.9", {REPLICAS["leader"]: "*"}, {"leader.replication.throttled.rate": "100"})
    move.run(5.0)
    assert move.end(2, MOVED) < move.end(1, MOVED)
    move.cluster.write(
        SetData(znodes.config_path("topics", MOVED.topic), znodes.config({})),
        Create(znodes.CONFIG_CHANGE, znodes.config_change(f"topics/{MOVED.topic}"), sequence=True),
    )
    move.run(1.5)
    assert move.end(2, MOVED) == move.end(1, MOVED)
