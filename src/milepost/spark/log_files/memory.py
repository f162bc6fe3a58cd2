"""What a stream remembers of directories between two looks: it looks again only where something changed.

A name that comes, goes or is replaced changes the modification time of its directory: a new segment, a partition, a checkpoint (which is
replaced as a whole). Only the last segment of a partition grows in place. So a look at a log that is idle asks for one status per directory
and one per last segment, however many segments there are.

A time counts only when it lies back far enough: file systems count in ticks, and a second change within one tick would not show.

`Pace` bounds what is left: while nothing comes, no more than a share of a core is spent on looking.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from milepost.files import Disk

T = TypeVar("T")

SETTLED_NS = 2_000_000_000
SHARE = 0.04
"""Of a core, for an idle stream."""
LEAST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds. A look costs Spark something, too; and records show in files only with the next checkpoint of the high watermark."""


def is_settled(mtime_ns: int) -> bool:
    return time.time_ns() - mtime_ns > SETTLED_NS


@dataclass(slots=True)
class Remembered(Generic[T]):
    """Values by directory, each good as long as the directory's modification time stays what it was."""

    disk: Disk
    _known: dict[str, tuple[tuple[int, int], T]] = field(default_factory=dict)

    def get(self, path: str, find: Callable[[], T]) -> T:
        status = self.disk.stat(path)
        stamp = (status.st_mtime_ns, status.st_ino)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        # The time is taken before the look: what changes meanwhile is seen by the next one.
        now_is_settled = is_settled(status.st_mtime_ns)
        value = find()
        if now_is_settled:
            self._known[path] = (stamp, value)
        else:
            self._known.pop(path, None)
        return value


class Pace:
    """Puts off the next look while the looks before it found nothing: by `least_pause`, and by more where the share asks for it."""

    def __init__(
        self,
        least_pause: float = LEAST_PAUSE,
        sleep: Callable[[float], None] = time.sleep,
        cpu_seconds: Callable[[], float] = time.process_time,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._least_pause = least_pause
        self._sleep = sleep
        self._cpu_seconds = cpu_seconds
        self._monotonic = monotonic
        self._began = 0.0
        self._due_at: float | None = None

    def before_look(self) -> None:
        """Wait until what the last look cost is no more than the share of the time since."""
        if self._due_at is not None:
            self._sleep(max(0.0, self._due_at - self._monotonic()))
        self._began = self._cpu_seconds()

    def looked(self, *, found: bool) -> None:
        cost = self._cpu_seconds() - self._began
        pause = min(max(cost / SHARE, self._least_pause), LONGEST_PAUSE)
        self._due_at = None if found else self._monotonic() + pause
