"""Work in pieces, done to its end; how many pieces there were, and how long the longest took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeVar

from milepost.coordinator.interfaces import Work

T = TypeVar("T")


@dataclass
class Pieces:
    count: int = 0
    longest: float = 0.0
    """Seconds of this thread's work; what others did meanwhile does not count."""


def finish(work: Work[T], pieces: Pieces | None = None) -> T:
    pieces = pieces or Pieces()
    while True:
        started = time.thread_time()
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            pieces.count += 1
            pieces.longest = max(pieces.longest, time.thread_time() - started)


def handled(response: Any, pieces: Pieces | None = None) -> Any:
    """What a handler returned, which may be work in pieces."""
    return finish(response, pieces) if isinstance(response, GeneratorType) else response
