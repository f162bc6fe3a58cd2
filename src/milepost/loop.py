"""The loop that one thread runs, as everything above the sockets sees it: timers, and tasks that are handed over.

`net/event_loop` is the real one; tests and simulations have their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A task that waits for its time."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    def later(self, seconds: float, task: Callable[[], object]) -> Timer: ...


class Poster(Protocol):
    def post(self, task: Callable[[], object]) -> None:
        """Run a task on the loop's thread, from whatever thread this is called on."""
        ...


class Loop(Timers, Poster, Protocol):
    def next_pass(self, task: Callable[[], object]) -> None: ...

    @property
    def monotonic(self) -> Callable[[], float]: ...

    @property
    def now(self) -> float:
        """When the pass that is running began."""
        ...
