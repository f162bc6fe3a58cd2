"""How many bytes of requests the server holds at a time (`queued.max.request.bytes`), over all connections.

What counts is what has been received of a request that is not complete yet, and in pooled mode a request that waits for a handler or is
being handled. While nothing is left

    a connection that holds nothing    is read on, as much at a time as needs no memory of its own: small requests come through
    one of those that hold a part      goes on to its end, the `finisher`; the last bytes may be more than there are, so that a request
                                       always fits, however large
    the others                         are not read: their bytes wait in the kernel, and their clients wait

    reserve   the pool may go below zero
    release   when it rises above zero again, those who were refused are called, in no particular order
    leave     the same when the finisher is through

A finisher of which hardly anything comes is closed while others wait (`too_slow`). Seconds in which somebody waited are counted
(MemoryPoolDepletedTimeTotal). Any thread may call anything here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

LEAST_RECEIVED = 1 << 20
"""In a second."""


class Receiving(Protocol):
    """A connection: how much of the request that is coming in is here, and how much the pool knows of."""

    reserved: int

    @property
    def received_bytes(self) -> int: ...


R = TypeVar("R", bound=Receiving)


class MemoryPool(Generic[R]):
    def __init__(self, size: int, monotonic: Callable[[], float] = time.monotonic):
        self.size = size
        self.available = size
        self.finisher: R | None = None
        self._seen: tuple[R | None, int] = (None, 0)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._depleted_since: float | None = None
        self._depleted_seconds = 0.0
        self._refused: dict[Callable[[], object], None] = {}

    def refuses(self, holder: R, call_later: Callable[[], object]) -> bool:
        """Whether somebody who holds a part of a request has to wait. If so, `call_later` is called once when it may go on."""
        if self.available > 0:
            return False
        with self._lock:
            if self.available > 0:
                return False
            if self.finisher is None:
                self.finisher = holder
            if self.finisher is holder:
                return False
            self._refused[call_later] = None
            if self._depleted_since is None:
                self._depleted_since = self._monotonic()
        return True

    def leave(self, holder: R) -> None:
        """Its request is handed on (in pooled mode: handled), or it is closed."""
        if self.finisher is not holder:
            return
        with self._lock:
            if self.finisher is not holder:
                return
            self.finisher = None
            called = self._waiters()
        for call in called:
            call()

    def too_slow(self) -> R | None:
        """Asked every second: a finisher that keeps others waiting."""
        finisher = self.finisher
        if finisher is None or not self._refused:
            self._seen = (None, 0)
            return None
        (before, had), self._seen = self._seen, (finisher, finisher.received_bytes)
        return finisher if before is finisher and finisher.received_bytes - had < LEAST_RECEIVED else None

    def hold(self, holder: R, size: int) -> None:
        """So much, instead of what it held before."""
        before, holder.reserved = holder.reserved, size
        if size > before:
            self.reserve(size - before)
        elif size < before:
            self.release(before - size)

    def reserve(self, size: int) -> None:
        with self._lock:
            self.available -= size

    def release(self, size: int) -> None:
        with self._lock:
            self.available += size
            if self.available <= 0:
                return
            called = self._waiters()
        for call in called:
            call()

    def _waiters(self) -> dict[Callable[[], object], None]:
        """Those who were refused, who wait no longer."""
        if self._depleted_since is not None:
            self._depleted_seconds += self._monotonic() - self._depleted_since
            self._depleted_since = None
        called, self._refused = self._refused, {}
        return called

    @property
    def used(self) -> int:
        return self.size - self.available

    @property
    def depleted_seconds(self) -> float:
        with self._lock:
            since = self._depleted_since
            return self._depleted_seconds + (0.0 if since is None else self._monotonic() - since)
