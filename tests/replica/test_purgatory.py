"""Those that wait for a partition are told of its changes, complete once, and are forgotten."""

from __future__ import annotations

import pytest

from milepost.replica.purgatory import Purgatory
from tests.simulation.turns import Turns


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def purgatory(turns):
    return Purgatory(turns)


class Waiter:
    """Completes when its key has reached a number."""

    def __init__(self, purgatory, keys, goal, seconds=1.0):
        self.reached = dict.fromkeys(keys, 0)
        self.goal = goal
        self.completed = 0
        purgatory.wait(keys, lambda key: self.reached[key] >= self.goal, self.complete, seconds)

    def complete(self):
        self.completed += 1


def test_completes_once_when_its_key_allows(purgatory, turns):
    waiter = Waiter(purgatory, ("a", "b"), 2)
    waiter.reached["a"] = 1
    purgatory.check("a")
    assert (waiter.completed, len(purgatory)) == (0, 1)
    waiter.reached["b"] = 2
    purgatory.check("b")
    purgatory.check("b")
    turns.advance(2)
    assert (waiter.completed, len(purgatory), bool(purgatory.watchers)) == (1, 0, False)


def test_completes_when_its_time_is_up(purgatory, turns):
    waiter = Waiter(purgatory, ("a",), 2)
    turns.advance(0.9)
    assert waiter.completed == 0
    turns.advance(0.2)
    purgatory.check("a")
    assert (waiter.completed, bool(purgatory.watchers)) == (1, False)


class Watcher:
    """Told again and again; waits now and then."""

    keys = ("a", "b")

    def __init__(self):
        self.told = []
        self.is_waiting = False
        self.has_enough = False

    def attempt(self, key):
        self.told.append(key)
        return self.has_enough


def test_watcher_is_told_until_it_has_enough(purgatory):
    watcher = Watcher()
    purgatory.watch(watcher)
    for key in "abca":
        purgatory.check(key)
    assert watcher.told == ["a", "b", "a"]
    watcher.has_enough = True
    purgatory.check("b")
    purgatory.check("a")
    assert watcher.told == ["a", "b", "a", "b"]
    assert not purgatory.watchers


def test_watcher_counts_while_it_waits_and_can_be_forgotten(purgatory):
    watcher = Watcher()
    purgatory.watch(watcher)
    purgatory.watch(watcher)
    assert len(purgatory) == 0
    watcher.is_waiting = True
    assert purgatory.waiting() == [watcher]
    purgatory.forget(watcher)
    purgatory.forget(watcher)
    purgatory.check("a")
    assert (watcher.told, bool(purgatory.watchers)) == ([], False)
