"""What goes a short way in a cluster ends as the plain way does: the same seed, event by event."""

from __future__ import annotations

from milepost.broker.remembered_fetch import RememberedFetch
from milepost.replica.fetcher import Fetcher
from tests.simulation.cluster import run


def test_fetches_of_followers_that_are_remembered(monkeypatch):
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
    monkeypatch.setattr(Fetcher, "_repeated", lambda self, topics, forgotten: None)
    assert [run(seed).fingerprint for seed in seeds] == expected
    assert taken > 100
