"""A way around the request channel for requests that a layer above knows well, many at a time.

A request that passes through the request channel costs several microseconds of objects and calls; one-record produce requests come in
bunches of dozens, each the same as the last but for its batch. Whoever handles requests may leave a shortcut on a connection; the processor
then offers it what was received, before it takes the next request the usual way.

Shortcuts are taken only where handlers run inline and no control plane is waiting for its turn between two requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from milepost.net.request_metrics import RequestMeter


class Shortcut(Protocol):
    meter: RequestMeter

    def run(self, view: memoryview, at: int, end: int, most: int) -> tuple[int, int, bytearray | bytes]:
        """Answer the frames at the start of `view[at:end]` as far as they are of the known kind and of at most `most` bytes: where
        the first other one starts, how many were answered, and the answers."""
        ...

    def other(self, view: memoryview, at: int, end: int) -> Shortcut | None:
        """A shortcut for the frame that starts at `at`, which `run` did not take."""
        ...


class Bunch:
    """Several requests that were answered in one go, until their answers have left."""

    __slots__ = ("_count", "_handled_at", "_meter", "_received_at", "_size")

    def __init__(self, count: int, size: int, received_at: float, handled_at: float, meter: RequestMeter):
        self._count = count
        self._size = size
        self._received_at = received_at
        self._handled_at = handled_at
        self._meter = meter

    def count(self, sent_at: float) -> None:
        self._meter.count_bunch(self._count, self._size, self._received_at, self._handled_at, sent_at)
