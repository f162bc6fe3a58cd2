"""One thread's loop: sockets that are ready, timers that are due, tasks that other threads handed over.

An own loop over epoll: the broker needs to drain its control plane between two data requests and to batch all answers
of a pass into one write, which a general-purpose loop does not offer, and it starts in a fraction of the time.

Everything a loop calls runs on its thread, one thing at a time. Other threads may call `post`, `later`, `next_pass` and `stop`.

A pass serves the sockets that are ready, then what was posted, then the timers that are due, and last one piece of long work
(`next_pass`). However much long work there is, a socket that becomes ready waits for one piece of it.

A loop knows how much it has to do: `idle_seconds` is the time it has waited in all, `longest_pass` the longest time between
two waits since the last look, which is how long a socket that became ready may have been left alone.
"""

from __future__ import annotations

import heapq
import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from milepost.net.busy_poll import BusyPoll, has_cores

logger = logging.getLogger("milepost.net")

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANGUP = select.EPOLLHUP | select.EPOLLERR

Task = Callable[[], object]
OnReady = Callable[[int], None]
Poll = Callable[[float, float], list[tuple[int, int]]]


LEAST_TIMERS = 1000
STEP_SECONDS = 0.05


class Timer:
    """A task that waits for its time. Cancelling is free: the heap forgets it when it comes up, or when most of it is like that."""

    __slots__ = ("due", "task")

    def __init__(self, due: float, task: Task | None):
        self.due = due
        self.task = task

    def cancel(self) -> None:
        self.task = None


class EventLoop:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, busy_poll: bool = False):
        self.monotonic = monotonic
        self._epoll = select.epoll()
        self._poll: Poll = self._sleep
        self._busy_poll = busy_poll
        self._handlers: dict[int, OnReady] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._most_timers = LEAST_TIMERS
        self._order = count()
        self._posted: deque[Task] = deque()
        self._long_work: deque[Task] = deque()
        self._waker, self._waked = socket.socketpair()
        self._waker.setblocking(False)
        self._waked.setblocking(False)
        self.register(self._waked.fileno(), READ, self._drain_waker)
        self._is_stopped = False
        self._thread: int | None = None
        # When the pass that is running began.
        self.now = monotonic()
        self.idle_seconds = 0.0
        self.longest_pass = 0.0

    # Sockets.

    def register(self, fd: int, events: int, on_ready: OnReady) -> None:
        self._handlers[fd] = on_ready
        self._epoll.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def fileno(self) -> int:
        """The loop itself can be waited for: it is readable when one of its sockets is."""
        return self._epoll.fileno()

    # Time and other threads.

    def later(self, seconds: float, task: Task) -> Timer:
        timer = Timer(self.monotonic() + seconds, task)
        if self._thread is None or self._thread == threading.get_ident():
            self._push(timer)
        else:
            self.post(lambda: self._push(timer))
        return timer

    def _push(self, timer: Timer) -> None:
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        if len(self._timers) > self._most_timers:
            # Requests that wait for replicas have half a minute, and are mostly answered after a millisecond.
            self._timers[:] = [entry for entry in self._timers if entry[2].task is not None]
            heapq.heapify(self._timers)
            self._most_timers = max(LEAST_TIMERS, 2 * len(self._timers))

    def post(self, task: Task) -> None:
        """Have `task` run on the loop's thread. Safe from any thread; on the loop's own, at the end of this pass."""
        self._posted.append(task)
        if self._thread != threading.get_ident():
            self.wake()

    def next_pass(self, task: Task) -> None:
        """Have `task` run at the end of a later pass, one such task a pass and in turn: a piece of work that is too long for one go.

        Safe from any thread.
        """
        self._long_work.append(task)
        if self._thread != threading.get_ident():
            self.wake()

    def wake(self) -> None:
        with suppress(OSError):  # full of earlier wake-ups, or closed: a second signal to stop comes whenever it likes
            self._waker.send(b"\0")

    def _drain_waker(self, events: int) -> None:
        with suppress(BlockingIOError):
            self._waked.recv(4096)

    # Running.

    def run(self) -> None:
        self._thread = threading.get_ident()
        if self._busy_poll and threading.current_thread() is threading.main_thread() and has_cores():
            self._poll = BusyPoll(self._epoll, self.monotonic).poll
        while not self._is_stopped:
            self.run_once()
        self._thread = None

    def run_until(self, is_so: Callable[[], bool], deadline: float) -> None:
        """Run until something is so, which is asked after each pass, or until it is too late."""
        self._thread = threading.get_ident()
        try:
            while not is_so() and self.monotonic() < deadline:
                self.run_once(STEP_SECONDS)
        finally:
            self._thread = None

    def stop(self) -> None:
        """For good, also when the loop has not begun to run."""
        self._is_stopped = True
        self.wake()

    def run_once(self, timeout: float | None = None) -> None:
        """Wait for something to do, at most until the next timer, and do it."""
        before = self.monotonic()
        busy = before - self.now
        if busy > self.longest_pass:
            self.longest_pass = busy
        ready = self._poll(self._wait_seconds(timeout, before), before)
        self.now = now = self.monotonic()
        self.idle_seconds += now - before
        # What is put off in this pass waits until the sockets were looked at again.
        has_long_work = bool(self._long_work)
        handlers = self._handlers
        for fd, events in ready:
            on_ready = handlers.get(fd)
            if on_ready is not None:  # an earlier handler of this pass may have closed it
                on_ready(events)
        while self._posted:
            self._posted.popleft()()
        if self._timers and self._timers[0][0] <= now:
            self._run_due(now)
        if has_long_work:
            self._long_work.popleft()()

    def _sleep(self, wait_seconds: float, _: float) -> list[tuple[int, int]]:
        return self._epoll.poll(wait_seconds)

    def _wait_seconds(self, timeout: float | None, now: float) -> float:
        if self._posted or self._long_work:
            return 0
        if not self._timers:
            return -1 if timeout is None else timeout
        until_timer = max(0.0, self._timers[0][0] - now)
        return until_timer if timeout is None else min(timeout, until_timer)

    def _run_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            task = heapq.heappop(self._timers)[2].task
            if task is not None:
                task()

    def close(self) -> None:
        self._epoll.close()
        self._waker.close()
        self._waked.close()
