"""A way past the request channel for requests that a layer above reads straight from the receive buffer, many in one go.

A request that passes through the request channel costs several microseconds of objects and calls; one-record produce requests come by the
dozen. The handler of requests may leave a fast path on a connection; the processor then offers it what was received before it takes the
next request the general path. Fast paths are taken only where handlers run inline.

    requests   answered together: their answers leave in one piece
    last       the request that ended the pass, if it has to be answered by itself: it waits, or its connection is to be closed, or answers
               to earlier requests of the connection are still pending (`response_order`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from milepost.net.request_metrics import RequestMeter


class LastRequest(Protocol):
    @property
    def size(self) -> int: ...

    def finish(self, request: Any) -> None:
        """Answer it, a `net/request`, or see to it that it will be. Raises nothing: what goes wrong ends as in a handler."""


class PipelinedRequests:
    """Requests that were handled in one go, until their answers have left."""

    __slots__ = ("_handled_at", "_received_at", "answers", "end", "last", "meter", "requests", "size")

    def __init__(self, end: int, requests: int, size: int, answers: bytearray, meter: RequestMeter, last: LastRequest | None):
        """`end`: where in the buffer the first request starts that was not taken. `size`: of the requests without the last one."""
        self.end = end
        self.requests = requests
        self.size = size
        self.answers = answers
        self.meter = meter
        self.last = last

    def wait(self, received_at: float, handled_at: float) -> None:
        """The answers could not all be sent."""
        self._received_at = received_at
        self._handled_at = handled_at

    def count(self, sent_at: float) -> None:
        self.meter.count_pipelined(self.requests, self.size, self._received_at, self._handled_at, sent_at)


class FastPath(Protocol):
    def take(self, view: memoryview, at: int, end: int, most: int, alone: bool) -> PipelinedRequests | None:
        """Handle the requests at the start of `view[at:end]` as far as they are whole, of at most `most` bytes and of the known kind.

        `alone`: one only, to be answered by itself. None: there is none. Raises nothing either.
        """
