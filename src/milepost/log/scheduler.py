"""Work that does not have to happen at once: flushing a segment that rolled, removing files that were deleted.

The log only says what and when. This scheduler runs `soon` tasks where they stand and keeps `later` tasks until
somebody calls `run_due`; a server gives the log one that has threads. A task that never runs costs nothing but time:
the next start flushes and removes the same files.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from milepost.clock import Clock

Task = Callable[[], None]


class Scheduler:
    def __init__(self, clock: Clock):
        self._clock = clock
        self._tasks: list[tuple[int, int, Task]] = []
        self._order = count()

    def soon(self, task: Task) -> None:
        task()

    def later(self, delay_ms: int, task: Task) -> None:
        heapq.heappush(self._tasks, (self._clock.now_ms() + delay_ms, next(self._order), task))

    def run_due(self) -> int:
        """Run what is due; how many tasks that were."""
        ran = 0
        while self._tasks and self._tasks[0][0] <= self._clock.now_ms():
            heapq.heappop(self._tasks)[2]()
            ran += 1
        return ran
