"""Maintenance of a broker's logs: retention, checkpoints and cleaning, without stopping the loop.

    on the loop          what touches a log: choosing, renaming, moving offsets. In pieces, a millisecond of them at a time, with a pause
                         after each for requests
    threads of `WorkQueue`    fsyncs, checkpoints, removal of files
    log-cleaner thread   one cleaning at a time: reads sealed segments, writes new ones; the loop puts them in place

Threads start with the first work for them. While a cleaning runs, its thread holds Python's lock whenever the kernel is not at work;
so it is asked to let go of it after half a millisecond instead of five, or each step of a request would wait that long for it.

`stop` aborts the cleaning, finishes what was begun, and leaves the logs open.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from milepost.log.cleaning.cleanable import LogToClean
from milepost.log.cleaning.cleaner import CleanerStats
from milepost.log.maintenance.contained import contained
from milepost.log.maintenance.side_thread import BackgroundScheduler, Inbox, SideThread
from milepost.log.manager import LogManager
from milepost.loop import Loop, Timer

TICK_SECONDS = 0.5
PIECES_SECONDS = 0.001
PAUSE_SECONDS = 0.004
SWITCH_SECONDS = 0.0005


class Maintenance:
    def __init__(self, logs: LogManager, loop: Loop):
        self._logs = logs
        self._loop = loop
        self._scheduler = logs.scheduler = BackgroundScheduler(logs.clock, loop.post)
        self._cleaner = SideThread("log-cleaner", self._scheduler.inbox)
        self._pieces: Iterator[None] = iter(())
        self._timer: Timer | None = None
        self._next_look_ms = logs.clock.now_ms() + logs.config.log_initial_task_delay_ms
        logs.cleaner.cleaner.on_owner = self._cleaner.on_owner

    @property
    def inbox(self) -> Inbox:
        """Where side threads of the broker leave what they have for the loop."""
        return self._scheduler.inbox

    def start(self) -> None:
        self._timer = self._loop.later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._logs.cleaner.abort_all()
        self._cleaner.stop()
        self._scheduler.stop()

    def _tick(self) -> None:
        self._pieces = self._work()
        self._go_on()

    def _go_on(self) -> None:
        end = self._loop.monotonic() + PIECES_SECONDS
        with contained("maintenance"):
            for _ in self._pieces:
                if self._loop.monotonic() >= end:
                    self._timer = self._loop.later(PAUSE_SECONDS, self._go_on)
                    return
        self._timer = self._loop.later(TICK_SECONDS, self._tick)

    def _work(self) -> Iterator[None]:
        yield from self._logs.maintenance.pieces()
        if not self._cleaner.unfinished and self._logs.clock.now_ms() >= self._next_look_ms:
            yield from self._look_for_dirty_logs()

    # Cleaning.

    def _look_for_dirty_logs(self) -> Iterator[None]:
        logs, cleaner = self._logs, self._logs.cleaner
        work = yield from cleaner.look_for_filthiest(logs.logs, logs.cleaner_offset, logs.write_cleaner_offset)
        if work is not None:
            self._clean(work)
            return
        yield from cleaner.retain(logs.logs)
        self._next_look_ms = logs.clock.now_ms() + cleaner.backoff_ms

    def _clean(self, work: LogToClean) -> None:
        cleaner = self._logs.cleaner
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_SECONDS))

        def ended(outcome: CleanerStats | Exception) -> None:
            sys.setswitchinterval(interval)
            cleaner.cleaned(work, outcome, self._logs.write_cleaner_offset)

        self._cleaner.submit(lambda: cleaner.attempt(work), ended, ended)
