"""One thread's loop: sockets, timers, tasks of other threads, and how busy it is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from milepost.net.event_loop import READ, EventLoop
from tests.waiting import PATIENCE


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def loop(clock: Time) -> Iterator[EventLoop]:
    loop = EventLoop(clock)
    yield loop
    loop.close()


def test_timers_run_in_the_order_of_their_times_and_not_before(loop, clock):
    ran = []
    loop.later(2, lambda: ran.append("b"))
    loop.later(1, lambda: ran.append("a"))
    loop.later(2, lambda: ran.append("c"))
    loop.run_once(0)
    assert ran == []
    clock.now += 2
    loop.run_once(0)
    assert ran == ["a", "b", "c"]


def test_loop_runs_until_something_is_so_or_it_is_too_late(loop, clock):
    ran = []
    loop.post(lambda: ran.append("a"))
    loop.run_until(lambda: bool(ran), deadline=clock.now + 1)
    assert ran == ["a"]
    loop.post(lambda: setattr(clock, "now", clock.now + 2))
    loop.run_until(lambda: False, deadline=clock.now + 1)
    loop.later(0, lambda: ran.append("b"))
    loop.run_once(0)
    assert ran == ["a", "b"]


def test_timer_that_was_cancelled_does_not_run(loop, clock):
    ran = []
    loop.later(1, lambda: ran.append("a")).cancel()
    clock.now += 1
    loop.run_once(0)
    assert ran == []


def test_many_that_were_cancelled_are_forgotten_and_the_others_keep_their_order(loop, clock):
    ran = []
    for number in range(5000):
        timer = loop.later(30 + number / 1000, lambda number=number: ran.append(number))
        if number % 10:
            timer.cancel()
    assert len(loop._timers) < 1600
    clock.now += 40
    loop.run_once(0)
    assert ran == list(range(0, 5000, 10))


def test_task_posted_on_the_loops_own_thread_runs_in_the_same_pass(loop):
    ran = []
    loop.later(0, lambda: loop.post(loop.stop))
    loop.later(0, lambda: loop.post(lambda: ran.append("posted")))
    loop.run()
    assert ran == ["posted"]


def test_timer_that_falls_due_while_something_else_runs_is_next(loop, clock):
    ran = []

    def slow() -> None:
        ran.append("slow")
        clock.now += 5

    loop.later(3, lambda: ran.append("timer"))
    loop.post(slow)
    loop.run_once(0)
    loop.run_once(0)
    assert ran == ["slow", "timer"]


def test_socket_that_was_closed_by_an_earlier_one_of_the_same_pass_is_left_alone(loop):
    pairs = [socket.socketpair() for _ in range(2)]
    called = []

    def close_the_other(index: int) -> None:
        called.append(index)
        loop.unregister(pairs[1 - index][1].fileno())

    for index, (mine, theirs) in enumerate(pairs):
        loop.register(theirs.fileno(), READ, lambda events, index=index: close_the_other(index))
        mine.send(b"x")
    loop.run_once(0)
    assert len(called) == 1
    for pair in pairs:
        for end in pair:
            end.close()


def test_task_and_timer_of_another_thread_wake_a_loop_that_waits():
    loop, ran, done = EventLoop(), [], threading.Event()
    thread = threading.Thread(target=loop.run)
    loop.later(60, lambda: None)
    thread.start()
    loop.post(lambda: ran.append(threading.current_thread()))
    loop.later(0.01, lambda: (ran.append(threading.current_thread()), done.set()))
    assert done.wait(PATIENCE)
    loop.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert ran == [thread, thread]
    loop.close()


def test_timer_of_another_thread_can_be_cancelled():
    loop, ran, done = EventLoop(), [], threading.Event()
    thread = threading.Thread(target=loop.run)
    thread.start()
    loop.later(0.01, lambda: ran.append("cancelled")).cancel()
    loop.later(0.03, done.set)
    assert done.wait(PATIENCE)
    loop.stop()
    thread.join(PATIENCE)
    assert ran == []
    loop.close()


def test_time_that_was_waited_is_idle_and_the_rest_is_not():
    loop = EventLoop()
    start = time.monotonic()
    loop.later(0.05, lambda: time.sleep(0.05))
    loop.run_once()
    loop.run_once(0)
    assert 0.04 <= loop.idle_seconds <= time.monotonic() - start - 0.05
    loop.close()


def test_longest_pass_is_how_long_the_sockets_were_left_alone(loop, clock):
    def slow() -> None:
        clock.now += 0.25

    loop.run_once(0)
    loop.post(slow)
    loop.run_once(0)
    loop.run_once(0)
    assert loop.longest_pass == pytest.approx(0.25)


def test_loop_that_is_closed_can_be_told_to_stop_again():
    loop = EventLoop()
    loop.close()
    loop.post(loop.stop)


def test_loop_that_was_told_to_stop_before_it_ran_does_not_begin():
    loop = EventLoop()
    loop.stop()
    loop.post(lambda: pytest.fail("it began"))
    loop.run()
    loop.close()


def test_long_work_goes_on_after_a_whole_pass_one_piece_a_pass_and_in_turn(loop, clock):
    ran = []
    ours, theirs = socket.socketpair()
    loop.register(theirs.fileno(), READ, lambda events: ran.append(theirs.recv(1).decode()))

    def work(name: str, pieces: int) -> None:
        ran.append(name)
        if pieces > 1:
            loop.next_pass(lambda: work(name, pieces - 1))

    loop.post(lambda: work("A", 3))
    loop.post(lambda: work("B", 2))
    loop.later(1, lambda: ran.append("timer"))
    loop.run_once(0)
    assert ran == ["A", "B"]
    ours.send(b"s")
    loop.post(lambda: ran.append("posted"))
    clock.now += 1
    loop.run_once()
    assert ran == ["A", "B", "s", "posted", "timer", "A"]
    ours.send(b"s")
    for _ in range(2):
        loop.run_once()
    assert ran[6:] == ["s", "B", "A"]
    loop.unregister(theirs.fileno())
    ours.close()
    theirs.close()


def test_long_work_of_another_thread_wakes_the_loop(loop):
    thread = threading.Thread(target=loop.run)
    thread.start()
    done = threading.Event()
    loop.next_pass(done.set)
    assert done.wait(PATIENCE)
    loop.stop()
    thread.join()
