"""Between processors and handlers: where requests wait.

Two modes, one interface:

    inline   `submit` runs the handler at once, on the processor's thread. There is no queue to wait in, and no lock. The default:
             under the GIL, handing a small request to another thread costs several times as much as handling it.
    pooled   `submit` puts the request into a queue of `queued.max.requests` from which the threads of a handler pool take it. A full
             queue blocks the processor, so its sockets are no longer read: that is the back-pressure.

A request leaves the processor's receive buffer only in pooled mode. There its bytes are copied, and reserved in the memory pool
until it is handled.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.net.memory_pool import MemoryPool
from milepost.net.request import Request

if TYPE_CHECKING:
    from milepost.net.channel import Channel

Handler = Callable[[Request], None]
WAIT_SECONDS = 0.3


class RequestChannel:
    """The inline mode."""

    def __init__(self, handler: Handler, memory: MemoryPool[Channel] | None = None):
        self.handler = handler
        self.memory = memory

    def submit(self, request: Request) -> None:
        self.handler(request)

    def __len__(self) -> int:
        """How many wait for a handler."""
        return 0


class PooledRequestChannel(RequestChannel):
    """The pooled mode."""

    def __init__(self, handler: Handler, memory: MemoryPool[Channel] | None = None, *, queued_max_requests: int = 500):
        super().__init__(handler, memory)
        self._queue: queue.Queue[Request] = queue.Queue(queued_max_requests)
        self._has_ended = False

    def submit(self, request: Request) -> None:
        request.frame = memoryview(bytes(request.frame))
        if self.memory is not None:
            self.memory.reserve(request.size)
        while not self._has_ended:
            with suppress(queue.Full):
                self._queue.put(request, timeout=WAIT_SECONDS)
                return

    def end(self) -> None:
        """Take no more requests: they would not be handled."""
        self._has_ended = True

    def take(self, timeout: float) -> Request | None:
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return None

    def handle(self, request: Request) -> None:
        try:
            self.handler(request)
        finally:
            if self.memory is not None:
                self.memory.release(request.size)

    def __len__(self) -> int:
        return self._queue.qsize()
