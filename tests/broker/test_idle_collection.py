"""Full garbage collections of a broker wait until nobody does."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from milepost.broker import idle_collection
from milepost.broker.idle_collection import IdleCollection


class Loop:
    """A loop whose clock and idle time the test moves."""

    def __init__(self) -> None:
        self.now = self.idle_seconds = 0.0
        self.task = lambda: None

    def monotonic(self) -> float:
        return self.now

    def later(self, seconds: float, task) -> None:
        self.task = task

    def second(self, idle: float) -> None:
        self.now += 1
        self.idle_seconds += idle
        self.task()


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The collector of a process, as far as a broker turns it."""
    found = SimpleNamespace(pending=0, full=0, frozen=0, thorough=0, threshold=(700, 10, 10), blocks=1000)

    def collect() -> None:
        found.full += 1
        found.pending = 0

    fake = SimpleNamespace(
        collect=collect,
        freeze=lambda: setattr(found, "frozen", found.frozen + 1),
        unfreeze=lambda: setattr(found, "thorough", found.thorough + 1),
        get_count=lambda: (0, 0, found.pending),
        get_threshold=lambda: found.threshold,
        set_threshold=lambda *given: setattr(found, "threshold", given),
    )
    monkeypatch.setattr(idle_collection, "gc", fake)
    monkeypatch.setattr(idle_collection, "sys", SimpleNamespace(getallocatedblocks=lambda: found.blocks))
    yield found


def test_full_collections_wait_for_an_idle_second(collected):
    loop = Loop()
    IdleCollection(loop).start()
    assert (collected.frozen, collected.threshold) == (1, (700, 10, idle_collection.NEVER))
    collected.pending = 9
    loop.second(idle=1.0)
    assert collected.full == 0, "there is nothing to do"
    collected.pending = 500
    loop.second(idle=0.5)
    assert collected.full == 0, "others are served"
    loop.second(idle=0.99)
    assert collected.full == 1


def test_broker_that_is_never_idle_collects_when_much_has_come(collected):
    loop = Loop()
    IdleCollection(loop).start()
    collected.pending = idle_collection.OVERDUE - 1
    loop.second(idle=0.0)
    assert collected.full == 0
    collected.pending += 1
    loop.second(idle=0.0)
    assert collected.full == 1


def test_what_a_collection_leaves_is_looked_at_again_when_the_heap_has_doubled(collected):
    loop = Loop()
    IdleCollection(loop).start()
    looks = []
    for blocks in (1000, 1999, 2000, 3000, 3999, 4000):
        collected.blocks, collected.pending = blocks, 500
        loop.second(idle=1.0)
        looks.append((collected.full, collected.frozen, collected.thorough))
    assert looks == [(1, 2, 0), (2, 3, 0), (3, 4, 1), (4, 5, 1), (5, 6, 1), (6, 7, 2)]


class Node:
    """One that only a collection can free."""

    def __init__(self) -> None:
        self.itself = self


def test_small_collections_go_on_by_themselves_and_find_young_cycles():
    before = gc.get_threshold()
    assert gc.isenabled()
    try:
        gc.set_threshold(before[0], before[1], idle_collection.NEVER)
        full = gc.get_stats()[2]["collections"]
        first = weakref.ref(Node())
        for _ in range(before[0] * 3):
            Node()
        assert first() is None
        assert gc.get_stats()[2]["collections"] == full
    finally:
        gc.set_threshold(*before)
