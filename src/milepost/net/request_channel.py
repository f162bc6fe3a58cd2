"""Between processors and handlers: where requests wait, and where their times are taken.

Two modes, one interface:

    inline   `submit` runs the handler at once, on the processor's thread. There is no queue to wait in, and no lock. The default:
             under the GIL, handing a small request to another thread costs several times as much as handling it.
    pooled   `submit` puts the request into a queue of `queued.max.requests` from which the threads of a handler pool take it. A full
             queue blocks the processor, so its sockets are no longer read: that is the back-pressure.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from milepost.net.request import Request

Handler = Callable[[Request], None]


@dataclass(slots=True)
class RequestTimes:
    """Sums over all requests, in seconds; divide by `count`."""

    count: int = 0
    queue: float = 0.0
    local: float = 0.0
    remote: float = 0.0
    total: float = 0.0

    def add(self, request: Request) -> None:
        handled = request.handled_at or request.answered_at
        self.count += 1
        self.queue += request.dequeued_at - request.received_at
        self.local += handled - request.dequeued_at
        self.remote += request.answered_at - handled
        self.total += request.answered_at - request.received_at


class RequestChannel:
    """The inline mode."""

    def __init__(self, handler: Handler, on_completed: Callable[[Request], None] | None = None):
        self.handler = handler
        self.times = RequestTimes()
        self._on_completed = on_completed

    def submit(self, request: Request) -> None:
        self.handler(request)

    def completed(self, request: Request) -> None:
        self.times.add(request)
        if self._on_completed is not None:
            self._on_completed(request)


class PooledRequestChannel(RequestChannel):
    """The pooled mode. A request leaves the processor's receive buffer here, so its frame is copied."""

    def __init__(
        self, handler: Handler, on_completed: Callable[[Request], None] | None = None, *, queued_max_requests: int = 500
    ):
        super().__init__(handler, on_completed)
        self._queue: queue.Queue[Request] = queue.Queue(queued_max_requests)

    def submit(self, request: Request) -> None:
        request.frame = memoryview(bytes(request.frame))
        self._queue.put(request)

    def take(self, timeout: float) -> Request | None:
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return None

    def __len__(self) -> int:
        return self._queue.qsize()
