"""How many bytes of requests the server holds at a time (`queued.max.request.bytes`), over all connections.

What counts is a request that has been announced and is not complete yet, at its full size, and in pooled mode a request
that waits for a handler or is being handled. A request whose bytes are reserved goes on; other connections are not read while nothing is
left: their bytes wait in the kernel, and their clients wait. As in Kafka the last reservation may exceed what is left, so that
a request always fits, however large, and no request can block itself.

    reserve   the pool may go below zero
    release   when it rises above zero again, those who were refused are called, in no particular order

Seconds in which a connection waited are counted (MemoryPoolDepletedTimeTotal). Any thread may call anything here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class MemoryPool:
    def __init__(self, size: int, monotonic: Callable[[], float] = time.monotonic):
        self.size = size
        self.available = size
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._depleted_since: float | None = None
        self._depleted_seconds = 0.0
        self._refused: dict[Callable[[], object], None] = {}

    def refuses(self, call_later: Callable[[], object]) -> bool:
        """Whether nothing is left. If so, `call_later` is called once when there is something again."""
        if self.available > 0:
            return False
        with self._lock:
            if self.available > 0:
                return False
            self._refused[call_later] = None
            if self._depleted_since is None:
                self._depleted_since = self._monotonic()
        return True

    def reserve(self, size: int) -> None:
        with self._lock:
            self.available -= size

    def release(self, size: int) -> None:
        with self._lock:
            self.available += size
            if self.available <= 0 or self._depleted_since is None:
                return
            self._depleted_seconds += self._monotonic() - self._depleted_since
            self._depleted_since = None
            called, self._refused = self._refused, {}
        for call in called:
            call()

    @property
    def used(self) -> int:
        return self.size - self.available

    @property
    def depleted_seconds(self) -> float:
        with self._lock:
            since = self._depleted_since
            return self._depleted_seconds + (0.0 if since is None else self._monotonic() - since)
