"""One thread, one clock, one source of chance: everything that happens in a simulated cluster, in one order that the seed decides.

What is to happen is in a queue by time; running it is all there is. Time passes only from one event to the next: an hour of waiting costs
nothing. The same seed gives the same run, event by event: `fingerprint` is equal then, and a failure can be looked at as often as it takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from zlib import crc32

Task = Callable[[], object]
WALL_CLOCK_MS = 1_700_000_000_000


class Timer:
    __slots__ = ("task",)

    def __init__(self, task: Task):
        self.task: Task | None = task

    def cancel(self) -> None:
        self.task = None


class World:
    def __init__(self, seed: int, trace: Callable[[str], object] | None = None):
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.events = 0
        self.fingerprint = 0
        self._trace = trace
        self._queue: list[tuple[float, int, Timer]] = []
        self._order = count()

    def now_ms(self) -> int:
        return WALL_CLOCK_MS + int(self.now * 1000)

    def at(self, time: float, task: Task) -> Timer:
        timer = Timer(task)
        heapq.heappush(self._queue, (max(time, self.now), next(self._order), timer))
        return timer

    def after(self, seconds: float, task: Task) -> Timer:
        return self.at(self.now + seconds, task)

    def note(self, text: str) -> None:
        """Something worth a line in a trace."""
        line = f"{self.now:9.4f} {text}"
        self.fingerprint = crc32(line.encode(), self.fingerprint)
        if self._trace is not None:
            self._trace(line)

    def run(self, until: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, with everything that falls into it; `is_enough` is asked once a second."""
        next_look = self.now
        while self._queue and self._queue[0][0] <= until:
            time, _, timer = heapq.heappop(self._queue)
            if timer.task is None:
                continue
            self.now = time
            self.events += 1
            timer.task()
            if self.now >= next_look:
                if is_enough():
                    return
                next_look = self.now + 1.0
        self.now = until
