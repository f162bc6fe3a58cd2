"""What everything in the group coordinator works with: time, the log, and the answers on their way out.

Answering a request makes its connection readable again, and the next request of that connection may be handled before `answer`
returns. So no answer leaves while a group is in the middle of a change: answers wait in the `Outbox` until the outermost piece of
work is done. Every entry to the coordinator (a request, a timer, a completed append) is such a piece of work.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from milepost.clock import Clock
from milepost.coordinator.group.group_settings import GroupSettings
from milepost.coordinator.hashing import partition_of
from milepost.coordinator.interfaces import CoordinatorLog, Done, Work
from milepost.loop import Timer, Timers
from milepost.record.records import Record

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationGuard

logger = logging.getLogger("milepost.coordinator")
PIECES_AT_ONCE, PIECES_MS = 100, 2


class Outbox:
    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._depth = 0
        self._delivering = False

    def put(self, answer: Callable[[Any], None], response: Any) -> None:
        assert self._depth, "an answer outside of any piece of work would never leave"
        self._waiting.append((answer, response))

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth or self._delivering:
            return
        self._delivering = True
        try:
            while self._waiting:
                answer, response = self._waiting.popleft()
                answer(response)
        finally:
            self._delivering = False


class GroupRuntime:
    def __init__(self, log: CoordinatorLog, timers: Timers, clock: Clock, settings: GroupSettings, new_id: Callable[[], str]):
        self.log = log
        self.clock = clock
        self.settings = settings
        self.new_id = new_id
        self.outbox = Outbox()
        self._timers = timers

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def partition_for(self, group_id: str) -> int:
        return partition_of(group_id, self.log.partition_count)

    def later(self, milliseconds: int, task: Callable[[], None]) -> Timer:
        def run() -> None:
            with self.outbox:
                task()

        return self._timers.later(max(milliseconds, 0) / 1000, run)

    def write(self, group_id: str, records: Sequence[Record], done: Done) -> None:
        """Append to the group's partition."""
        self.log.append(self.partition_for(group_id), records, self._inside(done))

    def write_batch(self, group_id: str, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        """The same for many records, which were put into a batch in pieces."""
        self.log.append_batch(self.partition_for(group_id), batch, self._inside(done), guard)

    def in_background(self, work: Work[object]) -> None:
        """Do work that nobody waits for, some pieces at a time; others are served in between."""
        until = self.now_ms() + PIECES_MS
        with self.outbox:
            for _ in range(PIECES_AT_ONCE):
                if self.now_ms() >= until:
                    break
                try:
                    next(work)
                except StopIteration:
                    return
        self._timers.later(0, lambda: self.in_background(work))

    def _inside(self, done: Done) -> Done:
        def run(error_code: int) -> None:
            with self.outbox:
                done(error_code)

        return run
