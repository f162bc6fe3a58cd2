"""Staying awake between requests: only after several short waits, and not when it serves nobody."""

from __future__ import annotations

import select

import pytest

from milepost.net.busy_poll import AWAKE, LEAST_PAUSE, MOST_LOOKS, SHORT_WAITS, TAKEN, BusyPoll

READABLE = [(7, select.EPOLLIN)]
WRITABLE = [(7, select.EPOLLOUT)]
NOTHING: list[tuple[int, int]] = []


class World:
    """An epoll, a clock and a scheduler: every look takes `step` seconds and finds the next of `finds`, then READABLE."""

    def __init__(self) -> None:
        self.now = 100.0
        self.step = 1e-6
        self.finds: list[list[tuple[int, int]]] = []
        self.asked: list[float] = []
        self.taken = 0
        self.busy = BusyPoll(self, lambda: self.now, lambda: self.taken)  # type: ignore[arg-type]

    def poll(self, wait_seconds: float) -> list[tuple[int, int]]:
        self.asked.append(wait_seconds)
        self.now += self.step
        return self.finds.pop(0) if self.finds else READABLE

    def wait(self, wait_seconds: float = 30.0) -> list[tuple[int, int]]:
        return self.busy.poll(wait_seconds, self.now)

    def warm(self) -> None:
        for _ in range(SHORT_WAITS):
            self.wait()
        self.asked.clear()


@pytest.fixture
def world() -> World:
    return World()


def test_first_waits_sleep(world):
    for _ in range(SHORT_WAITS):
        assert world.wait() == READABLE
    assert world.asked == [30.0] * SHORT_WAITS


def test_after_short_waits_it_looks_without_sleeping(world):
    world.warm()
    world.finds = [NOTHING, NOTHING, READABLE]
    assert world.wait() == READABLE
    assert world.asked == [0, 0, 0]


def test_when_nothing_comes_it_sleeps_and_short_waits_must_be_seen_again(world):
    world.warm()
    world.step = 0.6 * AWAKE
    world.finds = [NOTHING] * 2
    assert world.wait() == READABLE
    assert world.asked == [0, 0, 30.0]
    world.asked.clear()
    world.wait()
    assert world.asked == [30.0]


def test_it_never_looks_for_ever_on_a_clock_that_stands_still(world):
    world.warm()
    world.step = 0
    world.finds = [NOTHING] * MOST_LOOKS
    assert world.wait() == READABLE
    assert world.asked == [0] * MOST_LOOKS + [30.0]


def test_long_waits_and_writable_sockets_do_not_count(world):
    world.step = 2 * AWAKE
    for _ in range(3 * SHORT_WAITS):
        world.wait()
    world.step = 1e-6
    for _ in range(3 * SHORT_WAITS):
        world.finds = [WRITABLE]
        world.wait()
    assert set(world.asked) == {30.0}


def test_a_wait_of_no_length_is_one_look(world):
    world.warm()
    world.wait(0)
    assert world.asked == [0]


def test_when_its_core_was_taken_it_sleeps_for_a_while(world):
    world.warm()
    world.step = 2 * TAKEN
    world.taken = 1
    assert world.wait() == READABLE
    world.step = 1e-6
    world.asked.clear()
    for _ in range(2 * SHORT_WAITS):
        world.wait()
    assert set(world.asked) == {30.0}
    world.now += 2 * LEAST_PAUSE
    world.warm()
    world.wait()
    assert world.asked == [0]


def test_a_slow_look_without_losing_the_core_changes_nothing(world):
    world.warm()
    world.step = 2 * TAKEN
    world.wait()
    world.step = 1e-6
    world.asked.clear()
    world.wait()
    assert world.asked == [0]
