"""Work that does not have to happen at once, or that would keep the owner of the logs waiting for the disk.

    next_pass      on the owner's thread, when it is idle
    later          on the owner's thread, after a delay
    in_background  `work` where waiting for the disk blocks nothing; then `then` with its result, or `failed` with the error of the disk,
                   on the owner's thread. Works of one queue are done one after the other, in the order in which they were given
    wait           until everything in the background is done, or enough of it

A log on its own has this scheduler: everything is done where it stands, except that `later` tasks wait until somebody calls
`run_due`. A broker has one with threads (side_thread). A task that never runs costs nothing but time: the next start flushes and
removes the same files.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from milepost.clock import Clock
from milepost.log.maintenance.contained import contained

Task = Callable[[], None]
T = TypeVar("T")


class WorkQueue(enum.Enum):
    """Kinds of background work that should not wait for each other. The values name threads."""

    METADATA = "log-metadata"  # names, checkpoints, snapshots: small files
    FLUSH = "log-flusher"  # clients wait for these
    BULK = "log-bulk"  # whole segments: synced when they roll, unlinked when they are gone


class Scheduler:
    # Whether `in_background` returns before its work is done.
    is_background = False

    def __init__(self, clock: Clock):
        self._clock = clock
        self._tasks: list[tuple[int, int, Task]] = []
        self._order = count()

    def next_pass(self, task: Task) -> None:
        task()

    def later(self, delay_ms: int, task: Task) -> None:
        heapq.heappush(self._tasks, (self._clock.now_ms() + delay_ms, next(self._order), task))

    def run_due(self) -> int:
        """Run what is due; how many tasks that were."""
        ran = 0
        while self._tasks and self._tasks[0][0] <= self._clock.now_ms():
            with contained("a delayed task"):
                heapq.heappop(self._tasks)[2]()
            ran += 1
        return ran

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[OSError], None],
        work_queue: WorkQueue = WorkQueue.METADATA,
    ) -> None:
        try:
            result = work()
        except OSError as error:
            failed(error)
        else:
            then(result)

    def all(self, works: Sequence[Task]) -> list[OSError | None]:
        """Do them all, in any order, perhaps side by side; what became of each."""
        outcomes: list[OSError | None] = []
        for work in works:
            self.in_background(work, lambda _: outcomes.append(None), outcomes.append)
        return outcomes

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        pass
