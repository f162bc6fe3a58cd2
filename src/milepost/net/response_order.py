"""The order of responses: Kafka's clients expect them in the order of their requests.

A connection is muted while a request of it is being handled (mute_state), so usually at most one response is pending. A handler that only
waits for what no later request depends on, such as the followers of an append, may have the connection *read ahead*: the requests behind
are handled meanwhile. Their responses wait here until all before them are sent.

    read ahead, pending    the connection is read on
    answered early         a later request was answered first: its response is kept. If that one does not read ahead, the connection
                           stays muted
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from milepost.net.outgoing import Outgoing

MOST_PENDING = 64
"""Requests of one connection that may be pending like this; the next one mutes it as usual."""


class OrderedResponse(Protocol):
    """What this needs of a request."""

    is_read_ahead: bool
    outgoing: Sequence[Outgoing] | None


R = TypeVar("R", bound=OrderedResponse)


class ResponseOrder(Generic[R]):
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[R] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def read_ahead(self, request: R) -> bool:
        """Whether the connection may be read on."""
        if len(self._queue) >= MOST_PENDING:
            return False
        request.is_read_ahead = True
        self._queue.append(request)
        return True

    def answered(self, request: R, outgoing: Sequence[Outgoing]) -> Iterator[tuple[R, Sequence[Outgoing]]]:
        """What may be sent now that a request is answered, in order: perhaps nothing, perhaps others too."""
        if not request.is_read_ahead:
            self._queue.append(request)
        request.outgoing = outgoing
        while self._queue and self._queue[0].outgoing is not None:
            first = self._queue.popleft()
            assert first.outgoing is not None
            yield first, first.outgoing
