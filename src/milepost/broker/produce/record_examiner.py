"""The thread that looks into produced batches which would keep the loop busy for more than a few milliseconds (`log/examination`).

One thread, so that what was decompressed is in memory for one batch at a time. Decompression, the kernel's walks and compression
run without Python's lock, and others are served meanwhile. The handler goes on behind its `yield`; its connection stays muted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from milepost.broker.slices import Work, called_back
from milepost.errors import MilepostError
from milepost.log.examination import Budget, Examined, examine, examine_quickly
from milepost.log.validation import TakesLong

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.log.log import Log
    from milepost.log.maintenance.side_thread import SideThread

BYTES_OF_A_REQUEST = 1 << 20
T = TypeVar("T")


class RecordExaminer:
    def __init__(self, thread: SideThread, bytes_per_mb: int):
        self._thread = thread
        self._bytes_per_mb = bytes_per_mb
        self.batches_in_background = 0
        """Batches validated on the thread."""
        self.batches_refused = 0
        """How many came to more bytes than their requests may."""

    def budget(self, request_size: int) -> Budget:
        """Of a request of that many bytes."""
        return Budget(
            self._bytes_per_mb * -(-max(request_size, 1) // BYTES_OF_A_REQUEST),
            f"milepost.produce.max.decompressed.bytes is {self._bytes_per_mb} for each MB of it",
        )

    def examining(self, log: Log, data: ReadableBuffer, budget: Budget) -> Work[Examined]:
        """Of one whole batch."""
        validator, now_ms, refused = log.validator, log.clock.now_ms(), budget.refused
        try:
            examined = examine_quickly(validator, data, now_ms, budget)
        except TakesLong:
            self.batches_in_background += 1
            examined = yield from self.in_background(partial(examine, validator, data, now_ms, budget))
        self.batches_refused += budget.refused - refused
        return examined

    def in_background(self, work: Callable[[], T]) -> Work[T]:
        """The result of a work that touches nothing that belongs to the loop. What it raises is raised here."""

        results: list[T] = []

        def attempt() -> BaseException | None:
            try:
                results.append(work())
            except MilepostError as error:
                # The frames behind it hold what was decompressed.
                return error.with_traceback(None)
            except BaseException as error:
                return error
            return None

        def submit(done: Callable[[BaseException | None], None]) -> None:
            self._thread.submit(attempt, done, done)

        error = yield from called_back(submit)
        if error is not None:
            try:
                raise error
            finally:
                del error  # or this frame and the error would hold each other
        return results[0]

    def stop(self) -> None:
        self._thread.stop()
