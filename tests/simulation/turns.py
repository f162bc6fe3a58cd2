"""A scheduler without time of its own: tasks in the order they were posted, timers when the test lets time pass."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count

Task = Callable[[], object]


class Timer:
    def __init__(self, task: Task):
        self.task: Task | None = task

    def cancel(self) -> None:
        self.task = None


class Turns:
    def __init__(self) -> None:
        self.now = 0.0
        self._posted: deque[Task] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()

    def monotonic(self) -> float:
        return self.now

    def post(self, task: Task) -> None:
        self._posted.append(task)

    def next_pass(self, task: Task) -> None:
        self.post(task)

    def later(self, seconds: float, task: Task) -> Timer:
        timer = Timer(task)
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), timer))
        return timer

    def settle(self) -> None:
        """Everything that needs no time."""
        while self._posted:
            self._posted.popleft()()

    def advance(self, seconds: float) -> None:
        """Let time pass, with everything that falls into it."""
        self.settle()
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.task is not None:
                timer.task()
            self.settle()
        self.now = until
