"""Work that does not have to happen at once, or that would keep the owner of the logs waiting for the disk.

    soon    on the owner's thread, when it has nothing else in hand
    later   on the owner's thread, after a delay
    aside   `work` wherever the disk keeps nobody waiting; then `then` with its result, or `failed` with the error of the disk, on
            the owner's thread. Works of one lane are done one after the other, in the order in which they were given
    settle  waits until everything that was given aside is done, or enough of it

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


class Lane(enum.Enum):
    """Who waits for a work should not wait for those of another kind. The values name threads."""

    METADATA = "log-metadata"  # names, checkpoints, snapshots: small files
    FLUSH = "log-flusher"  # clients wait for these
    BULK = "log-bulk"  # whole segments: synced when they roll, unlinked when they are gone


class Scheduler:
    # Whether `aside` returns before its work is done.
    is_background = False

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
            with contained("a task that was put off"):
                heapq.heappop(self._tasks)[2]()
            ran += 1
        return ran

    def aside(
        self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[OSError], None], lane: Lane = Lane.METADATA
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
            self.aside(work, lambda _: outcomes.append(None), outcomes.append)
        return outcomes

    def settle(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        pass
