"""The threads that take requests from a pooled request channel.

The pool can be resized while it runs, between half and double its size, as Kafka allows: growing adds handlers at the
end, shrinking ends the last ones once they are done with the request in hand. `idle_seconds` is the time the handlers
waited for work, divided by their number: its rate is RequestHandlerAvgIdlePercent, where 1 is idle and 0 overloaded.

An exception that a handler lets through is a bug of ours, not of the request: it is reported as fatal, because a
server that goes on after one would answer from an unknown state.
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

    def __init__(self, number: int, pool: RequestHandlerPool):
        self.number = number
        self._pool = pool
        self._ended = False
        self.thread = threading.Thread(target=self._run, name=f"request-handler-{number}", daemon=True)

    def _run(self) -> None:
        pool = self._pool
        while not self._ended or (pool.is_ending and len(pool.channel)):
            start = time.monotonic()
            request = pool.channel.take(POLL_SECONDS)
            now = time.monotonic()
            pool.waited(now - start)
            if request is None:
                continue
            request.dequeued_at = now
            try:
                pool.channel.handle(request)
            except BaseException as error:
                # The processor may be waiting for room in the queue, and no handler may be left to make it.
                pool.channel.end()
                pool.fatal(error)
                return

    def end(self) -> None:
        self._ended = True


class RequestHandlerPool:
    def __init__(self, size: int, channel: PooledRequestChannel, fatal: Callable[[BaseException], None]):
        self.channel = channel
        self.fatal = fatal
        self.is_ending = False
        self.idle_seconds = 0.0
        self._idle_lock = threading.Lock()
        self._handlers: list[RequestHandler] = []
        self._grow_to(size)

    @property
    def size(self) -> int:
        return len(self._handlers)

    def waited(self, seconds: float) -> None:
        with self._idle_lock:
            self.idle_seconds += seconds / max(1, self.size)

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
            handler = RequestHandler(len(self._handlers), self)
            self._handlers.append(handler)
            handler.thread.start()

    def shutdown(self) -> None:
        """End the handlers once the requests that wait are handled."""
        self.is_ending = True
        for handler in self._handlers:
            handler.end()
        for handler in self._handlers:
            if handler.thread is not threading.current_thread():
                handler.thread.join(timeout=5)
