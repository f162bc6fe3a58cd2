"""A program that talks while it starts, and should only be heard if it fails, or once it runs.

A JVM with Spark says nine lines about itself before anybody can ask it for silence. Inside `quiet_start` whatever is written to standard
error, by this process or by those it starts, is kept back. It is shown when the block ends with an error, and dropped otherwise. What the
started processes write later goes through.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD_ERROR = 2


class _Forwarder(threading.Thread):
    """Reads what is written for as long as anybody may write."""

    def __init__(self, source: int, target: int):
        super().__init__(name="milepost-stderr", daemon=True)
        self._source, self._target = source, target
        self._lock = threading.Lock()
        self._kept: list[bytes] | None = []

    def run(self) -> None:
        while select.select([self._source], [], [])[0]:
            with self._lock:
                chunk = self._read()
                if chunk == b"":
                    return  # nobody may write any more
                if chunk is not None and self._kept is None:
                    os.write(self._target, chunk)
                elif chunk is not None and self._kept is not None:
                    self._kept.append(chunk)

    def _read(self) -> bytes | None:
        """What is there; None when that is nothing, or was taken meanwhile."""
        return os.read(self._source, 65536) if select.select([self._source], [], [], 0)[0] else None

    def let_through(self, *, with_the_kept: bool) -> None:
        with self._lock:
            while chunk := self._read():  # written before this moment, and not yet noticed
                assert self._kept is not None
                self._kept.append(chunk)
            kept, self._kept = b"".join(self._kept or ()), None
        if with_the_kept and kept:
            os.write(self._target, kept)


@contextmanager
def quiet_start() -> Iterator[None]:
    sys.stderr.flush()
    real = os.dup(STANDARD_ERROR)
    source, sink = os.pipe()
    forwarder = _Forwarder(source, real)
    forwarder.start()
    os.dup2(sink, STANDARD_ERROR)
    os.close(sink)
    is_up = False
    try:
        yield
        is_up = True
    finally:
        sys.stderr.flush()
        os.dup2(real, STANDARD_ERROR)
        forwarder.let_through(with_the_kept=not is_up)
