"""Making a log durable: at once, or in the background, where waiting for the disk blocks no request.

    flush                 returns when everything below an offset is durable
    flush_in_background   returns at once. One fsync of a log runs at a time; flushes asked for meanwhile share the next one

A flush syncs the files of every segment between the recovery point and its end, then the directory, and only then moves the recovery
point (W-3 in `tests/crash/test_write_order.py`). An fsync that failed is never repeated: the
kernel may have dropped the pages it could not write.

`flush.messages` asks for a flush before an append is answered. Where flushes run in the background, the append returns before its
flush does: `is_flush_awaited` says so, and `when_flushed` calls back. Until then it is not acknowledged, and cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from milepost.errors import KafkaStorage
from milepost.files import Disk, opened
from milepost.log.appending import DISK_FULL, AppendableLog
from milepost.log.maintenance.scheduler import Scheduler, WorkQueue
from milepost.segment import names

EPOCHS_RETRY_MS = 1000

T = TypeVar("T")
OnFlushed = Callable[["KafkaStorage | None"], None]


class FlushableLog(AppendableLog):
    scheduler: Scheduler
    last_flush_ms: int
    is_flush_awaited = False

    def __init__(self) -> None:
        self._pending = 0
        self._flush_target = 0
        self._is_flushing = False
        self._waiting: list[tuple[int, OnFlushed]] = []
        # The epochs that their file is to hold, and the recovery point when it last held all of them; until it does again.
        self._unwritten_epochs: list[str] | None = None
        self._epochs_known_to = 0

    # At once.

    def flush(self, up_to: int | None = None) -> None:
        """Make everything below `up_to` (by default: everything) durable, then move the recovery point."""
        target = self.end_offset if up_to is None else up_to
        if target <= self.recovery_point or not self.is_usable:
            return
        try:
            for segment in self.segments.between(min(self.recovery_point, target), target):
                segment.flush()
            self.pool.disk.sync_directory(self.directory)
        except OSError as error:
            raise self.fail(error) from error
        self.recovery_point = target
        self.last_flush_ms = self.clock.now_ms()

    # Aside.

    def flush_in_background(self, up_to: int | None = None) -> None:
        """The same, without waiting for it."""
        target = self.end_offset if up_to is None else up_to
        if target > self.recovery_point and self.is_usable:
            self._flush_target = max(self._flush_target, target)
            if not self._is_flushing:
                self._start_flush()

    def flush_no_further_than(self, offset: int) -> None:
        """The log was cut: what was flushed behind it says nothing about what will be written there."""
        self._flush_target = min(self._flush_target, offset)

    def flush_before_answer(self) -> None:
        self.is_flush_awaited = self.scheduler.is_background and self.is_usable
        self.flush_in_background()

    def when_flushed(self, then: OnFlushed) -> None:
        """Call back when everything appended so far is durable: with None, or with what went wrong."""
        self._waiting.append((self.end_offset, then))
        if not self.is_flush_awaited:
            self._tell_waiting()

    def _start_flush(self) -> None:
        self._is_flushing = True
        target = self._flush_target
        paths = self.files_from(min(self.recovery_point, target), target)
        disk, directory = self.pool.disk, self.directory
        work_queue = WorkQueue.FLUSH if self.is_flush_awaited else WorkQueue.BULK
        self.in_background(
            lambda: sync_files(disk, paths, directory), lambda _: self._flushed(target), self._flush_failed, work_queue
        )

    def files_from(self, start: int, end: int | None = None) -> list[str]:
        """Paths of all files that segments with offsets from `start` up to `end` may have."""
        segments = self.segments.from_offset(start) if end is None else self.segments.between(start, end)
        return [segment.path(kind) for segment in segments for kind in names.SEGMENT_SUFFIXES]

    def sync_in_background(self, paths: list[str]) -> None:
        """Make files, and all names in the directory, durable: soon, and before anything that is asked for later in this queue."""
        disk, directory = self.pool.disk, self.directory
        self.in_background(lambda: sync_files(disk, paths, directory), lambda _: None, self._failed)

    def _failed(self, error: OSError) -> None:
        raise self.fail(error) from error

    def _flushed(self, target: int) -> None:
        self._is_flushing = False
        if not self.is_failed:
            self.recovery_point = max(self.recovery_point, target)
            self.last_flush_ms = self.clock.now_ms()
        if self._flush_target > self.recovery_point and not self.is_failed:
            self._start_flush()
        else:
            self.is_flush_awaited = False
        self._tell_waiting()

    def _flush_failed(self, error: OSError) -> None:
        self._is_flushing = self.is_flush_awaited = False
        failure = self.fail(error)
        self._tell_waiting()
        raise failure from error

    def _tell_waiting(self) -> None:
        failure = self.why_unusable
        waiting, self._waiting = self._waiting, []
        for offset, then in waiting:
            if failure is None and offset > self.recovery_point:
                self._waiting.append((offset, then))
            else:
                # Not from here: who is told goes on to answer a client, while whoever settles this log is in the middle of something.
                self.scheduler.next_pass(partial(then, failure))

    # Work for this log that is under way somewhere else.

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[OSError], None],
        work_queue: WorkQueue = WorkQueue.METADATA,
    ) -> None:
        def done(result: T) -> None:
            self._pending -= 1
            then(result)

        def not_done(error: OSError) -> None:
            self._pending -= 1
            failed(error)

        self._pending += 1
        self.scheduler.in_background(work, done, not_done, work_queue)

    @property
    def recovers_from(self) -> int:
        """The recovery point as it may be checkpointed: what the file of epochs lacks is learnt again from the batches behind it."""
        return self.recovery_point if self._unwritten_epochs is None else min(self.recovery_point, self._epochs_known_to)

    def write_epochs_in_background(self, lines: list[str]) -> None:
        """What is lost of this file when the process dies is learnt again from the batches behind the recovery point."""

        def written(_: None) -> None:
            if self._unwritten_epochs is lines:
                self._unwritten_epochs = None

        def failed(error: OSError) -> None:
            if error.errno not in DISK_FULL:
                raise self.fail(error) from error
            self.scheduler.later(EPOCHS_RETRY_MS, again)

        def again() -> None:
            if self.is_usable:
                self.epochs.rewrite()

        if self.is_usable:
            self._epochs_known_to = self.recovers_from
            self._unwritten_epochs = lines
            self.in_background(lambda: self.epochs.write_lines(lines), written, failed)

    def snapshot_in_background(self, first: Callable[[], None] = lambda: None, done: Callable[[], None] = lambda: None) -> None:
        """A snapshot of the producers, if one is due; in any case what is to be done before it, and told when it is there."""
        snapshot, producers = self.producers.encoded_snapshot(), self.producers

        def work() -> None:
            first()
            if snapshot is not None:
                producers.write_snapshot(snapshot)

        def written(_: None) -> None:
            done()
            if snapshot is not None:
                producers.note_snapshot(snapshot)

        def failed(error: OSError) -> None:
            done()
            raise self.refuse(error) from error

        self.in_background(work, written, failed)

    def finish_background_work(self) -> None:
        """Wait for it."""
        self.scheduler.wait(lambda: not self._pending)


def sync_files(disk: Disk, paths: list[str], directory: str) -> None:
    """Through descriptors of our own: those of the log belong to its owner's thread."""
    for path in paths:
        # Not there: an index that was never made; or its segment was deleted or replaced meanwhile.
        with suppress(FileNotFoundError), opened(disk, path) as fd:
            disk.fsync(fd)
    disk.sync_directory(directory)
