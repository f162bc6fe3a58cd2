"""The threads beside the one that owns the logs, with nothing left to chance: each does its next step when the simulation says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from milepost.clock import ManualClock
from milepost.errors import MilepostError
from milepost.log.cleaning.cleanable import LogToClean
from milepost.log.cleaning.cleaner import CleaningAborted
from milepost.log.maintenance.scheduler import Scheduler, Task, WorkQueue
from milepost.log.manager import LogManager
from tests.waiting import PATIENCE


class LateThreads(Scheduler):
    """Side threads whose works, and the news of their ends, come when somebody chooses."""

    is_background = True

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self._work_queues: dict[WorkQueue, list[Task]] = {work_queue: [] for work_queue in WorkQueue}
        self._unfinished = 0
        self.ends: list[Task] = []
        self.posted: list[Task] = []

    def next_pass(self, task: Task) -> None:
        self.posted.append(task)

    def in_background(
        self, work: Callable[[], Any], then: Callable[[Any], None], failed: Any, work_queue: WorkQueue = WorkQueue.METADATA
    ) -> None:
        if not self.is_background:
            super().in_background(work, then, failed, work_queue)
            return

        def do() -> None:
            try:
                result = work()
            except OSError as error:
                reason = error
                self.ends.append(lambda: failed(reason))
            else:
                self.ends.append(lambda: then(result))

        self._unfinished += 1
        self._work_queues[work_queue].append(do)

    def work(self, work_queue: WorkQueue) -> None:
        if self._work_queues[work_queue]:
            self._work_queues[work_queue].pop(0)()

    def end(self) -> None:
        if self.ends:
            self._unfinished -= 1
            with suppress(MilepostError):  # as in a broker: whoever failed has said so
                self.ends.pop(0)()

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        while self._unfinished and not is_enough():
            for work_queue in WorkQueue:
                self.work(work_queue)
            self.end()


class Cleaning:
    """One cleaning on its thread, which runs only while the simulation waits for its next step."""

    def __init__(self, manager: LogManager, work: LogToClean):
        self._turn, self._came = threading.Semaphore(0), threading.Semaphore(0)
        self._step: Task | None = None
        self._error: BaseException | None = None
        self._is_abandoned = False
        self.outcome: Any = None
        manager.cleaner.cleaner.on_owner = self._on_owner

        def run() -> None:
            self._turn.acquire()
            self.outcome = manager.cleaner.attempt(work)
            self._step = None
            self._came.release()

        self.work = work
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._go_on()

    def _on_owner(self, step: Task) -> None:
        if not self._is_abandoned:
            self._step = step
            self._came.release()
            self._turn.acquire()
        if self._is_abandoned:
            raise CleaningAborted("the process was killed")
        if self._error is not None:
            raise self._error

    def _go_on(self) -> None:
        self._turn.release()
        assert self._came.acquire(timeout=PATIENCE), "the cleaning stands still"

    def turn(self) -> bool:
        """One step on the owner's thread. Whether the cleaning is over."""
        if self._step is not None:
            self._error = None
            try:
                self._step()
            except BaseException as error:
                self._error = error
            self._go_on()
        return self._step is None

    def abandon(self) -> None:
        self._is_abandoned = True
        if self._step is not None:
            self._go_on()
        self._thread.join(PATIENCE)
