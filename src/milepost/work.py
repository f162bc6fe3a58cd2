"""Work in pieces: a generator that yields between two of them, so that whoever does it can see to others there.

It yields None, or a function that subscribes: nothing can be done before what was given to that function is called. The broker does
the work of requests in slices (`broker/slices`), and where there is little of it, it is done at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
PIECE = 200
"""Elements that are cheap: less than a tenth of a millisecond for all of them."""


def at_once(work: Generator[Any, None, T]) -> T:
    """The result of a work that waits for nothing, in one go: where there is little of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def pieces(elements: Iterable[T]) -> Iterator[list[T]]:
    """The elements, some at a time: where they are so cheap that a pause for each would cost more."""
    iterator = iter(elements)
    while piece := list(islice(iterator, PIECE)):
        yield piece


class Turn:
    """What is done by one request at a time, though each is done in slices."""

    def __init__(self) -> None:
        self.wanted = 0
        """How many have it or wait for it."""
        self._is_taken = False
        self._waiting: list[Callable[[], object]] = []

    def of(self, work: Generator[Any, None, T]) -> Generator[Any, None, T]:
        """Do this when no other work of the kind runs."""
        self.wanted += 1
        try:
            while self._is_taken:
                yield self._waiting.append
            self._is_taken = True
            try:
                return (yield from work)
            finally:
                self._is_taken = False
                # All of them: who is first takes it, and some may have ended meanwhile.
                waiting, self._waiting = self._waiting, []
                for resume in waiting:
                    resume()
        finally:
            self.wanted -= 1


class Turns(Generic[K]):
    """A `Turn` for each of many things, as long as there is work on it."""

    def __init__(self) -> None:
        self._turns: dict[K, Turn] = {}

    def __contains__(self, key: K) -> bool:
        """Whether one has it."""
        return key in self._turns

    def of(self, key: K, work: Generator[Any, None, T]) -> Generator[Any, None, T]:
        turn = self._turns.setdefault(key, Turn())
        try:
            return (yield from turn.of(work))
        finally:
            if not turn.wanted:
                self._turns.pop(key, None)
