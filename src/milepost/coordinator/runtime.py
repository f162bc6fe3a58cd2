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
from typing import Any

from milepost.clock import Clock
from milepost.coordinator.hashing import partition_of
from milepost.coordinator.interfaces import CoordinatorLog, Done, Handle, Timers
from milepost.coordinator.settings import GroupSettings
from milepost.record.records import Record

logger = logging.getLogger("milepost.coordinator")


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

    def later(self, milliseconds: int, task: Callable[[], None]) -> Handle:
        def run() -> None:
            with self.outbox:
                task()

        return self._timers.later(max(milliseconds, 0) / 1000, run)

    def write(self, group_id: str, records: Sequence[Record], done: Done) -> None:
        """Append to the group's partition."""
        self.log.append(self.partition_for(group_id), records, self._inside(done))

    def write_transactional(
        self, group_id: str, records: Sequence[Record], producer_id: int, producer_epoch: int, done: Done
    ) -> None:
        self.log.append_transactional(self.partition_for(group_id), records, producer_id, producer_epoch, self._inside(done))

    def _inside(self, done: Done) -> Done:
        def run(error_code: int) -> None:
            with self.outbox:
                done(error_code)

        return run
