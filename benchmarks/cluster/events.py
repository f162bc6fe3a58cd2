"""Figures of what happens to a cluster: it comes up, its controller dies, a leader moves, a follower catches up.

up         ZooKeeper and three brokers, over empty directories, until every broker knows of all and of a controller
failover   kill -9 of the controller among 1,000 partitions of three replicas: from the moment its znode is gone until every partition
           has accepted a record with acks=all
move       the leader of a partition changes on demand (ElectLeaders): from the request until the new leader has accepted a record
catch-up   a follower that was stopped misses some bytes: from its registration until it is in sync; bytes by that time
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from threading import Event

from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.load import KB64, RECORD, Measured
from benchmarks.cluster.clusters import Cluster
from benchmarks.cluster.probe import Probe
from benchmarks.cluster.topics import connected, elect_preferred, leader_of, make_topic, prefer, settle, wait_until
from milepost.cluster.overview import overview
from milepost.cluster.zookeeper.znodes import broker_path

FAILOVER_SECONDS = 120.0
MOVES = 9


class Events:
    """Each job has a cluster of its own, over a directory of its own."""

    def __init__(self, clients: Clients, directory: Path, partitions: int, gigabytes: float):
        self.clients = clients
        self.directory = directory
        self.partitions = partitions
        self.gigabytes = gigabytes

    def up(self, kind: type[Cluster]) -> Measured:
        cluster = kind(self.directory / "up")
        try:
            # Once before, over files that are thrown away: everybody finds Java, Python and their files in the page cache.
            cluster.start()
            cluster.remove()
            cluster = kind(self.directory / "up")
            seconds = cluster.start()
            time.sleep(1.0)
            return {"up": seconds, "rss idle": cluster.rss_mb()}
        finally:
            cluster.remove()

    def failover(self, kind: type[Cluster]) -> Measured:
        cluster = kind(self.directory / "failover")
        try:
            cluster.start()
            before = time.monotonic()
            make_topic(cluster, "failover", self.partitions)
            made = time.monotonic() - before
            # Every partition has accepted a record before, so nothing is opened for the first time afterwards.
            Probe(cluster, "failover", self.partitions).until_all_accept(FAILOVER_SECONDS)
            settle()
            victim = cluster.overview().controller
            assert victim is not None
            with cluster.reader() as reader:
                gone = Event()
                reader.watch(broker_path(victim), lambda path: gone.set())
                cluster.kill(victim)
                assert gone.wait(60), f"{cluster.name}: the znode of broker {victim} stays"
                start = time.monotonic()
            accepted = Probe(cluster, "failover", self.partitions).until_all_accept(FAILOVER_SECONDS)
            return {
                "failover": max(accepted.values()) - start,
                "failover half": median(accepted.values()) - start,
                "create": made,
                "rss partitions": cluster.rss_mb(),
            }
        finally:
            cluster.remove()
            settle()

    def move(self, kind: type[Cluster]) -> Measured:
        cluster = kind(self.directory / "move")
        try:
            cluster.start()
            make_topic(cluster, "moved")
            times = [self._one_move(cluster) for _ in range(MOVES + 1)]
            return {"move": median(times[1:]) * 1000, "move worst": max(times[1:]) * 1000}
        finally:
            cluster.remove()

    def _one_move(self, cluster: Cluster) -> float:
        leader = leader_of(cluster, "moved")
        assert leader is not None
        numbers = sorted(cluster.brokers)
        at = numbers.index(leader) + 1
        order = numbers[at:] + numbers[:at]
        prefer(cluster, "moved", order)
        probe = Probe(cluster, "moved", 1)
        with connected(cluster) as asked:
            request = elect_preferred("moved")

            def elect(connection: object) -> float:
                start = time.monotonic()
                connection.send(request)  # type: ignore[attr-defined]
                return start

            start = asked.on_controller(elect)
            while True:
                accepted = probe.until_all_accept(30.0)[0]
                if leader_of(cluster, "moved") == order[0]:
                    break
            return accepted - start

    def catch_up(self, kind: type[Cluster]) -> Measured:
        cluster = kind(self.directory / "catch-up")
        try:
            cluster.start()
            make_topic(cluster, "missed")
            leader = leader_of(cluster, "missed")
            assert leader is not None
            follower = next(number for number in cluster.brokers if number != leader)
            cluster.stop_broker(follower)
            batch = batch_of(records_that_fit(KB64, RECORD), RECORD)
            requests = int(self.gigabytes * 1e9 / len(batch))
            frames = produce_frames(batch, [Target("missed")])
            wait_until(lambda: leader_of(cluster, "missed") == leader, "the leader stays")
            self.clients.produce(cluster.brokers[leader].port, frames, connections=1, in_flight=4, requests=requests, seconds=600)
            settle()
            cluster.begin(follower)
            with cluster.reader() as reader:
                wait_until(lambda: follower in overview(reader).brokers, "the follower registers", 0.002)
                start = time.monotonic()
                wait_until(lambda: overview(reader).is_in_sync(follower), "the follower is in sync", 0.01)
                seconds = time.monotonic() - start
            return {"catch-up": requests * len(batch) / 1e6 / seconds, "catch-up rss": cluster.rss_mb()}
        finally:
            cluster.remove()
            settle()
