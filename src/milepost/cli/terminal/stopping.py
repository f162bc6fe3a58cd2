"""Ending a command that would run for ever: the first SIGINT or SIGTERM asks it to finish what it is doing, a second SIGINT ends it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    is_asked = False


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.is_asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
