"""Parts of a response that complete in any order, now or later; the response is sent when the last one is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedResponses(Generic[T]):
    def __init__(self, count: int, done: Callable[[list[T]], object]):
        """`done` gets all parts in order, once `count` of them have been put."""
        self._parts: dict[int, T] = {}
        self._count = count
        self._done = done
        if not count:
            done([])

    def put(self, place: int, part: T) -> None:
        assert place not in self._parts, f"part {place} comes twice"
        self._parts[place] = part
        if len(self._parts) == self._count:
            self._done([self._parts[each] for each in range(self._count)])
