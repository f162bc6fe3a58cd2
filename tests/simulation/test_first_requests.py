"""What a broker of a simulated cluster has ready before anybody asks."""

from __future__ import annotations

from milepost.broker.internal_topics.coordinators import Coordinators
from tests.simulation.cluster import Cluster


def test_coordinators_are_loaded_soon_after_the_start_and_not_by_the_first_request(monkeypatch):
    """Loading their modules takes tens of milliseconds, in which nobody is served."""
    made = []
    make = Coordinators.make
    monkeypatch.setattr(Coordinators, "make", lambda coordinators: made.append(coordinators) or make(coordinators))
    cluster = Cluster(0)
    started = cluster.brokers[1]
    started.start()
    cluster.world.run(cluster.world.now + 3)
    assert started.broker.coordinators in made
