"""Full garbage collections of a broker's process, put off to moments in which no request waits.

Python looks for cycles in all objects whenever a quarter more of them have come to stay. With 10,000 partitions that takes hundreds of
milliseconds in one piece, in the midst of a request. Nearly everything a broker drops goes without it, by counting references, and young
cycles are found by the small collections, which stay as they are. So a full collection is made when the loop has been idle for a while,
or when it has been put off too often.

What was there at the start, or is left by an earlier full collection, is not looked at again (`gc.freeze`). Cycles among it would stay, so
everything is looked at when the heap has grown to GROWTH times what it was the last time.

For a process that is a broker and nothing else: the settings of the collector are the process's.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.net.event_loop import EventLoop

NEVER = 1 << 30
LOOK_SECONDS = 1.0
DUE = 10
"""Collections of the middle generation since the last full one; Python's own threshold."""
OVERDUE = 2000
"""So many are about 14 million objects that came and did not go at once."""
IDLE_SHARE = 0.95
GROWTH = 2.0


class IdleCollection:
    def __init__(self, loop: EventLoop):
        self._loop = loop
        self._idle_before = loop.idle_seconds
        self._looked_at = loop.monotonic()
        self._blocks = 0
        """Allocated when all objects were last looked at."""

    def start(self) -> None:
        gc.freeze()
        self._blocks = sys.getallocatedblocks()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)
        self._loop.later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now, idle = self._loop.monotonic(), self._loop.idle_seconds
        is_idle = idle - self._idle_before >= IDLE_SHARE * (now - self._looked_at)
        self._looked_at, self._idle_before = now, idle
        pending = gc.get_count()[2]
        if pending >= OVERDUE or (is_idle and pending >= DUE):
            self._collect()
        self._loop.later(LOOK_SECONDS, self._look)

    def _collect(self) -> None:
        is_thorough = sys.getallocatedblocks() >= GROWTH * self._blocks
        if is_thorough:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        if is_thorough:
            self._blocks = sys.getallocatedblocks()
