"""How this source's errors reach whoever typed the query: first and short, without what Spark's own processes add.

An error goes through one of Spark's Python processes, which sends its traceback, ours first and the sentence last. For an error of ours the
sentence says it all: `said_first` asks that process, which ends with the error, to leave the traceback out. Any other error is a fault of
the program, and keeps it.

A query that has what it wants (`limit`) closes the connection to its tasks; the process of such a task then prints a BrokenPipeError that
is no error. `quiet_about_limits` leaves that message out, and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from milepost.errors import MilepostError

HIDES_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""PySpark's own switch (`pyspark.util.handle_worker_exception`). A process whose error is sent is not used again."""


@contextmanager
def said_first() -> Iterator[None]:
    try:
        yield
    except MilepostError:
        os.environ[HIDES_TRACEBACK] = "1"
        raise


class _WithoutBrokenPipes:
    """Standard error without what is written because a connection was closed on purpose."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        # Spark's process prints while it handles the error, as one text or line by line, which depends on its version and settings.
        return len(text) if isinstance(sys.exc_info()[1], BrokenPipeError) else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def quiet_about_limits() -> None:
    if not isinstance(sys.stderr, _WithoutBrokenPipes):
        sys.stderr = _WithoutBrokenPipes(sys.stderr)
