"""The threads that take requests from a pooled request channel.

The pool can be resized while it runs, between half and double its size, as Kafka allows: growing adds handlers at the
end, shrinking ends the last ones once they are done with the request in hand. `average_idle` is the share of time the
handlers waited for work (RequestHandlerAvgIdlePercent): 1 is idle, 0 overloaded.

An exception that a handler lets through is a bug of ours, not of the request: it is reported as fatal, because a
server that goes on after one would answer from a state nobody knows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from milepost.errors import InvalidArgument
from milepost.net.request_channel import PooledRequestChannel

logger = logging.getLogger("milepost.net")

POLL_SECONDS = 0.3


class RequestHandler:
    """One thread of the pool."""

    def __init__(self, number: int, channel: PooledRequestChannel, fatal: Callable[[BaseException], None]):
        self.number = number
        self.idle_seconds = 0.0
        self._channel = channel
        self._fatal = fatal
        self._ended = False
        self.thread = threading.Thread(target=self._run, name=f"request-handler-{number}", daemon=True)

    def _run(self) -> None:
        while not self._ended:
            start = time.monotonic()
            request = self._channel.take(POLL_SECONDS)
            now = time.monotonic()
            self.idle_seconds += now - start
            if request is None:
                continue
            request.dequeued_at = now
            try:
                self._channel.handler(request)
            except BaseException as error:
                self._fatal(error)
                return

    def end(self) -> None:
        self._ended = True


class RequestHandlerPool:
    def __init__(self, size: int, channel: PooledRequestChannel, fatal: Callable[[BaseException], None]):
        self._channel = channel
        self._fatal = fatal
        self._handlers: list[RequestHandler] = []
        self._started = time.monotonic()
        self._grow_to(size)

    @property
    def size(self) -> int:
        return len(self._handlers)

    def resize(self, size: int) -> None:
        """Change the number of handlers, to no less than half and no more than double."""
        if size < 1 or not self.size / 2 <= size <= self.size * 2:
            raise InvalidArgument(
                f"num.io.threads: cannot go from {self.size} to {size}; between half and double at a time, and at least 1"
            )
        self._grow_to(size)
        while self.size > size:
            self._handlers.pop().end()

    def _grow_to(self, size: int) -> None:
        while len(self._handlers) < size:
            handler = RequestHandler(len(self._handlers), self._channel, self._fatal)
            self._handlers.append(handler)
            handler.thread.start()

    @property
    def average_idle(self) -> float:
        elapsed = (time.monotonic() - self._started) * self.size
        return min(1.0, sum(handler.idle_seconds for handler in self._handlers) / elapsed) if elapsed else 1.0

    def shutdown(self) -> None:
        for handler in self._handlers:
            handler.end()
        for handler in self._handlers:
            if handler.thread is not threading.current_thread():
                handler.thread.join(timeout=5)
