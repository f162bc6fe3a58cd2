"""Answers that come one by one, at once or later; the response goes out when the last is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Gathering(Generic[T]):
    def __init__(self, count: int, done: Callable[[list[T]], object]):
        """`done` gets all parts in order, as soon as `count` of them have been put."""
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
