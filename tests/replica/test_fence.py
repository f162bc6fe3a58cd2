"""A broker that was away for longer than its session asks before it acts; one that is merely without ZooKeeper goes on."""

from __future__ import annotations

from milepost.replica.fence import Fence
from tests.simulation.turns import Turns


def test_fence_is_down_while_turns_are_taken():
    turns = Turns()
    asked = []
    fence = Fence(turns.monotonic, turns, 6.0, asked.append)
    fence.start()
    turns.advance(60)
    assert not fence.is_fenced()
    assert not asked


def test_gap_longer_than_the_session_raises_it_until_zookeeper_answers():
    turns = Turns()
    asked = []
    fence = Fence(turns.monotonic, turns, 6.0, asked.append)
    fence.start()
    turns.now += 6.5  # nothing ran
    assert fence.is_fenced()
    assert len(asked) == 1
    turns.advance(10)
    assert fence.is_fenced()
    assert len(asked) == 1
    asked[0]()
    assert not fence.is_fenced()


def test_gap_shorter_than_the_session_does_not():
    turns = Turns()
    asked = []
    fence = Fence(turns.monotonic, turns, 6.0, asked.append)
    fence.start()
    turns.now += 5.9
    assert not fence.is_fenced()
    assert not asked
