"""What goes a short way in a cluster ends as the plain way does: the same seed, event by event."""

from __future__ import annotations

from milepost.broker.remembered_fetch import RememberedFetch
from milepost.broker.remembered_produce import AwaitedAnswer, RememberedProduces
from milepost.protocol.fetch_frames import SINCE
from milepost.replica.fetcher import Fetcher
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster, run


def test_fetches_of_followers_that_are_remembered(monkeypatch):
    """Those keep their place in the purgatory, so that followers may be told in another order: not with these seeds."""
    short = RememberedFetch.handle
    taken = 0

    def counted(self, request):
        nonlocal taken
        is_taken = short(self, request)
        taken += is_taken
        return is_taken

    seeds = range(1, 7)
    monkeypatch.setattr(RememberedFetch, "handle", counted)
    expected = [run(seed).fingerprint for seed in seeds]
    monkeypatch.setattr(RememberedFetch, "handle", lambda self, request: False)
    assert [run(seed).fingerprint for seed in seeds] == expected
    monkeypatch.setattr(Fetcher, "_row_of", lambda self, topics, forgotten, wanted, asked: None)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert taken > 100


def test_batches_that_all_replicas_must_have(monkeypatch):
    taken = []
    wait = AwaitedAnswer.wait
    monkeypatch.setattr(AwaitedAnswer, "wait", lambda self, broker, seconds: taken.append(wait(self, broker, seconds)))
    seeds = range(1, 7)
    expected = [run(seed).fingerprint for seed in seeds]
    monkeypatch.setattr(RememberedProduces, "handle", lambda self, request, broker: False)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert len(taken) > 100


def test_quiet_partitions_of_a_busy_follower_stay_caught_up():
    """Only the busy one is named in its fetches, again and again, for longer than a follower may be behind."""
    cluster = Cluster(2)
    assert len(cluster.brokers) == 3 and cluster.versions.fetch >= SINCE, "another seed is needed"
    for broker in cluster.brokers.values():
        broker.start()
    cluster.world.run(1.0)
    cluster.use_topic("t", 4)
    busy, quiet = cluster.partitions[0], cluster.partitions[3]
    cluster.partitions = [busy]
    for number in range(5):
        cluster.clients.append(Producer(cluster, number, is_idempotent=False, acks_all=True))
    cluster.world.run(12.0)
    (leader,) = (broker for broker in cluster.brokers.values() if broker.partition(quiet).is_leader)
    assert leader.partition(busy).is_leader
    replicas = leader.partition(quiet).leadership.remote.values()
    assert all(leader.process.now_ms() - replica.caught_up_ms < 1000 for replica in replicas)
