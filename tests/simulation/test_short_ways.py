"""What goes a short way in a cluster ends as the plain way does: the same seed, event by event."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from milepost.broker import dispatch
from milepost.broker.fetch.follower import Follower
from milepost.broker.fetch.repeated_consumer import RepeatedConsumerFetch
from milepost.broker.fetch.repeated_follower import RepeatedFollowerFetch
from milepost.broker.produce.frame_answers import FrameAnswer
from milepost.protocol.follower_fetch_frames import SINCE
from milepost.replica.fetcher import Fetcher
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster, Complaints, run


def test_fetches_of_followers_that_are_remembered(monkeypatch):
    """Those keep their place in the purgatory, so that followers may be told in another order: not with these seeds."""
    short = RepeatedFollowerFetch.handle
    taken = 0

    def counted(self, request):
        nonlocal taken
        is_taken = short(self, request)
        taken += is_taken
        return is_taken

    seeds = (1, 3, 5, 6, 7, 8)
    monkeypatch.setattr(RepeatedFollowerFetch, "handle", counted)
    expected = [run(seed).fingerprint for seed in seeds]
    monkeypatch.setattr(RepeatedFollowerFetch, "handle", lambda self, request: False)
    assert [run(seed).fingerprint for seed in seeds] == expected
    monkeypatch.setattr(Fetcher, "_repeated_fetch", lambda self, topics, forgotten, wanted, asked: None)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert taken > 100


def test_fetches_of_consumers_that_repeat(monkeypatch):
    short = RepeatedConsumerFetch.handle
    taken = 0

    def counted(self, request):
        nonlocal taken
        is_taken = short(self, request)
        taken += is_taken
        return is_taken

    seeds = range(1, 6)
    monkeypatch.setattr(RepeatedConsumerFetch, "handle", counted)
    expected = [run(seed).fingerprint for seed in seeds]
    monkeypatch.setattr(RepeatedConsumerFetch, "handle", lambda self, request: False)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert taken > 100


def test_batches_that_all_replicas_must_have(monkeypatch):
    taken = []
    finish = FrameAnswer.finish
    monkeypatch.setattr(FrameAnswer, "finish", lambda self, request: taken.append(finish(self, request)))
    seeds = range(1, 7)
    expected = [run(seed).fingerprint for seed in seeds]
    assert len(taken) > 100
    taken.clear()
    monkeypatch.setattr(dispatch, "ProduceFrames", lambda *given: None)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert not taken


def started(**settings: Any) -> Cluster:
    """Three brokers, and a topic whose first partition five producers write to."""
    cluster = Cluster(2)
    assert len(cluster.brokers) == 3 and cluster.versions.fetch >= SINCE, "another seed is needed"
    for broker in cluster.brokers.values():
        broker.settings.update(settings)
        broker.start()
    cluster.world.run(1.0)
    cluster.use_topic("t", 4)
    busy = cluster.partitions[0]
    cluster.partitions = [busy]
    for number in range(5):
        cluster.clients.append(Producer(cluster, number, is_idempotent=False, acks_all=True))
    return cluster


def test_quiet_partitions_of_a_busy_follower_stay_caught_up():
    """Only the busy one is named in its fetches, again and again, for longer than a follower may be behind."""
    cluster = started()
    busy, quiet = cluster.partitions[0], TopicPartition("t", 3)
    cluster.world.run(12.0)
    (leader,) = (broker for broker in cluster.brokers.values() if broker.partition(quiet).is_leader)
    assert leader.partition(busy).is_leader
    replicas = leader.partition(quiet).leadership.remote.values()
    assert all(leader.process.now_ms() - replica.caught_up_ms < 1000 for replica in replicas)


@pytest.fixture(params=["remembered", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(RepeatedFollowerFetch, "handle", lambda self, request: False)
    return request.param


def test_bytes_to_followers_are_counted(way):
    cluster = started()
    cluster.world.run(5.0)
    for client in cluster.clients:
        client.is_stopped = True
    cluster.world.run(10.0)
    metrics = [broker.broker.replicas.topic_metrics for broker in cluster.brokers.values()]
    received = sum(each.replication_bytes_in for each in metrics)
    assert sum(each.replication_bytes_out for each in metrics) == received > 10_000


def test_read_that_fails_is_told_to_the_follower_and_ends_nothing(way, monkeypatch):
    records, reads = Follower.records, itertools.count(1)

    def failing(self: Follower, *given: Any) -> Any:
        if next(reads) % 20 == 0:
            raise OSError(5, "Input/output error")
        return records(self, *given)

    monkeypatch.setattr(Follower, "records", failing)
    with Complaints() as complaints:
        cluster = started()
        cluster.world.run(5.0)
    assert not complaints.findings
    assert next(reads) > 40
    assert all(broker.is_up for broker in cluster.brokers.values())
    for client in cluster.clients:
        client.is_stopped = True
    monkeypatch.undo()
    cluster.world.run(10.0)
    ends = {broker.partition(cluster.partitions[0]).log.end_offset for broker in cluster.brokers.values()}
    assert len(ends) == 1 and ends != {0}


def test_error_of_ours_while_a_follower_is_answered_ends_one_connection(way, monkeypatch):
    def planted(self: Follower, partition: Partition, size: int) -> None:
        raise ValueError("planted")

    cluster = started()
    cluster.world.run(3.0)
    monkeypatch.setattr(Follower, "count_bytes", planted)
    with pytest.raises(AssertionError, match=r"fetcher.* would be disconnected: Fetch"):
        cluster.world.run(8.0)


def test_answer_to_a_follower_is_no_larger_than_the_broker_allows(way, monkeypatch):
    count, sizes = Follower.count_bytes, []

    def counted(self: Follower, partition: Partition, size: int) -> None:
        sizes.append(size)
        count(self, partition, size)

    monkeypatch.setattr(Follower, "count_bytes", counted)
    cluster = started(**{"fetch.max.bytes": 1024, "replica.fetch.max.bytes": 1 << 20})
    cluster.world.run(3.0)
    straggler = cluster.brokers[3]
    straggler.crash(is_power_failure=False)
    cluster.world.run(6.0)
    straggler.start()
    cluster.world.run(12.0)
    assert 500 < max(sizes) <= 1024
