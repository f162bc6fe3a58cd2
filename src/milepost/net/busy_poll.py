"""Waiting for sockets, awake for a moment before going to sleep.

A thread that sleeps until a socket is ready is woken by the kernel, and on a virtual machine waking a sleeping core takes longer
(30 to 40 us) than most requests. A client that sends its next request when it has the answer to the last, or a consumer that reads a
large answer piece by piece, makes the broker fall asleep and wake up for each of them.

So when several waits in a row were over within `AWAKE` the next one looks again and again for that long before it sleeps. It stops
doing so when

    nothing comes       the traffic has changed; short waits have to be seen again first
    the core was taken  between two looks: another process wants it, and a thread that exhausts its time slice is no longer woken
                        promptly. Not again for a moment, or twice as long as the last time.
    a socket is written to  a large response is being sent, and its reader may need the core

Only a loop that has its process to itself does this: in a program that runs a broker on a thread, or handles requests in a pool, that
thread would keep the interpreter from the others. `milepost.busy.poll=false` switches it off.
"""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Callable

AWAKE = 100e-6
TAKEN = 300e-6
SHORT_WAITS = 16
LEAST_PAUSE, MOST_PAUSE = 0.05, 2.0
MOST_LOOKS = 1000

Ready = list[tuple[int, int]]


def has_cores() -> bool:
    """Whether another thread can run while this one stays awake."""
    return len(os.sched_getaffinity(0)) > 1


def times_taken() -> int:
    """How often this thread had to leave its core to another one."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class BusyPoll:
    def __init__(self, epoll: select.epoll, monotonic: Callable[[], float], times_taken: Callable[[], int] = times_taken):
        self._look = epoll.poll
        self._monotonic = monotonic
        self._times_taken = times_taken
        self._taken = 0
        self._short_waits = 0
        self._pause = LEAST_PAUSE
        self._not_before = 0.0

    def poll(self, wait_seconds: float, before: float) -> Ready:
        """What is ready, at the latest after `wait_seconds` (negative: no limit). It is `before` now."""
        if self._short_waits >= SHORT_WAITS and wait_seconds:
            ready = self._stay_awake(before)
            if ready:
                return ready
        ready = self._look(wait_seconds)
        now = self._monotonic()
        if not ready or ready[0][1] & select.EPOLLOUT or now - before >= AWAKE or now < self._not_before:
            self._short_waits = 0
        else:
            self._short_waits += 1
            if self._short_waits == SHORT_WAITS:
                self._taken = self._times_taken()
        return ready

    def _stay_awake(self, start: float) -> Ready:
        last = start
        for _ in range(MOST_LOOKS):
            ready = self._look(0)
            now = self._monotonic()
            if now - last > TAKEN and self._times_taken() > self._taken:
                # Also when something is ready: it may have been for long.
                self._short_waits = 0
                self._pause = LEAST_PAUSE if now - self._not_before > MOST_PAUSE else min(2 * self._pause, MOST_PAUSE)
                self._not_before = now + self._pause
                return ready
            if ready:
                return ready
            if now - start > AWAKE:
                break
            last = now
        self._short_waits = 0
        return []
