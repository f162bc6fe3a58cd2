"""Threads beside the one that owns the logs, for what would block it: fsync, unlink, cleaning.

    owner's thread                             side thread
    submit(work, then, failed)      ------>    work()
    then(result) / failed(error)    <------    its end
    step()                          <------    on_owner(step) waits for the step's end

A thread does its works in the order in which they were given. What a work may touch: files by their paths, through descriptors of its
own. Not the log, and not the handles of its pool: the owner closes them when it rolls, deletes or renames.

Whatever comes back waits in the owner's `Inbox`. `post` is how the owner's thread is told to look into it; one that must not go on before
something is done takes it from there itself (`wait`). A thread starts with its first work.
"""

from __future__ import annotations

import errno
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from milepost.clock import Clock
from milepost.log.maintenance.contained import contained
from milepost.log.maintenance.scheduler import Scheduler, Task, WorkQueue

logger = logging.getLogger("milepost.log")

MOST_THREADS = 16

T = TypeVar("T")
Post = Callable[[Task], None]


class Inbox:
    """What side threads have for the owner's."""

    def __init__(self, post: Post):
        self._post = post
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()

    def put(self, task: Task) -> None:
        self._tasks.put(task)
        self._post(self._take)

    def _take(self) -> None:
        try:
            task = self._tasks.get_nowait()
        except queue.Empty:
            return  # somebody could not wait for it, and took it
        task()

    def wait(self) -> None:
        """Wait for the next one, and do it."""
        self._tasks.get()()


class SideThread:
    def __init__(self, name: str, inbox: Inbox):
        self._name = name
        self._inbox = inbox
        self._works: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        # Works whose end the owner has not been told yet. The owner's own count: no other thread touches it.
        self.unfinished = 0

    # On the owner's thread.

    def submit(self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[OSError], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self.unfinished += 1
        self._works.put(lambda: self._do(work, then, failed))

    def stop(self) -> None:
        """When everything is done."""
        while self.unfinished:
            self._inbox.wait()
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()
            self._thread = None

    def _ended(self, tell: Task) -> None:
        self.unfinished -= 1
        # There is nobody above to tell it to. A log that went offline has said so itself.
        with contained(f"work of the thread {self._name}"):
            tell()

    # On the side thread.

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work()

    def _do(self, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[OSError], None]) -> None:
        try:
            result = work()
        except OSError as error:
            tell = partial(failed, error)
        except Exception as error:
            # Whoever waits for this work goes on without it: what it left on disk is as unknown as after an error of the disk.
            logger.exception("work of the thread %s failed", self._name)
            tell = partial(failed, OSError(errno.EIO, f"{type(error).__name__}: {error}"))
        else:
            tell = partial(then, result)
        self._inbox.put(lambda: self._ended(tell))

    def on_owner(self, step: Task) -> None:
        """Have the owner's thread run a step, and wait for its end. What the step raises is raised here."""
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def run() -> None:
            try:
                step()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

        self._inbox.put(run)
        error = ended.get()
        if error is not None:
            raise error


class BackgroundScheduler(Scheduler):
    """The scheduler of logs whose owner must not wait for the disk. A thread for each queue."""

    def __init__(self, clock: Clock, post: Post):
        super().__init__(clock)
        self.is_background = True
        self.inbox = Inbox(post)
        self._post = post
        self._threads = {work_queue: SideThread(work_queue.value, self.inbox) for work_queue in WorkQueue}

    def next_pass(self, task: Task) -> None:
        self._post(task)

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[OSError], None],
        work_queue: WorkQueue = WorkQueue.METADATA,
    ) -> None:
        if self.is_background:
            self._threads[work_queue].submit(work, then, failed)
        else:
            super().in_background(work, then, failed, work_queue)

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        while not is_enough() and any(thread.unfinished for thread in self._threads.values()):
            self.inbox.wait()

    def all(self, works: Sequence[Task]) -> list[OSError | None]:
        """Several threads that wait for one disk are served together."""
        outcomes: list[OSError | None] = [None] * len(works)
        threads = [SideThread(f"log-closing-{number}", self.inbox) for number in range(min(MOST_THREADS, len(works)))]
        for number, work in enumerate(works):
            threads[number % len(threads)].submit(work, lambda _: None, partial(outcomes.__setitem__, number))
        for thread in threads:
            thread.stop()
        return outcomes

    def stop(self) -> None:
        """Finish everything; from here on work is done where it stands."""
        self.wait()
        for thread in self._threads.values():
            thread.stop()
        self.is_background = False
