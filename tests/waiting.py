"""Waiting for what comes, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds for what happens in this process. Nobody waits so long when all is well."""
PROCESS_PATIENCE = 180.0
"""For other processes, which have to be loaded first."""


def until(is_so: Callable[[], object], what: str = "it did not happen", seconds: float = PATIENCE, pause: float = 0.005) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
