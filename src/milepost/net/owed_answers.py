"""The answers that a connection owes, in the order of its requests.

A connection is muted while a request of it is on its way (mute_state), so usually it owes one answer at most. A handler that only waits for
what no later request depends on, such as the replicas that follow an append, may *let go* of the connection: the requests behind are
handled meanwhile. Their answers wait here until all before them have gone.

    let go, unanswered     the connection is read on
    answered too soon      a later request was answered first: its answer is kept. If that one was not let go, the connection stays muted
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from milepost.net.outgoing import Outgoing

MOST_OWED = 64
"""Requests of one connection that may wait like this; the next one mutes it, as ever."""


class Owed(Protocol):
    """What this needs of a request."""

    is_let_go: bool
    outgoing: Sequence[Outgoing] | None


R = TypeVar("R", bound=Owed)


class OwedAnswers(Generic[R]):
    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[R] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def let_go(self, request: R) -> bool:
        """Whether the connection may be read on."""
        if len(self._queue) >= MOST_OWED:
            return False
        request.is_let_go = True
        self._queue.append(request)
        return True

    def answered(self, request: R, outgoing: Sequence[Outgoing]) -> Iterator[tuple[R, Sequence[Outgoing]]]:
        """What may go out now that a request is answered, in order: perhaps nothing, perhaps others too."""
        if not request.is_let_go:
            self._queue.append(request)
        request.outgoing = outgoing
        while self._queue and self._queue[0].outgoing is not None:
            first = self._queue.popleft()
            assert first.outgoing is not None
            yield first, first.outgoing
