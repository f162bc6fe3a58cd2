"""What the benchmark programs share: data to work on, and a table to print."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from milepost import Record, build_batch

NOW_MS = 1_700_000_000_000


@contextmanager
def scratch() -> Iterator[str]:
    """A directory in memory where there is one: the disk is not what is measured."""
    path = tempfile.mkdtemp(prefix="milepost-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def batch_of(records: int, value_size: int, timestamp: int = NOW_MS) -> bytes:
    """A batch as a producer sends it."""
    value = os.urandom(value_size)
    return build_batch([Record(index, timestamp, None, value) for index in range(records)], base_offset=0)


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest round: the machine is shared, and noise only ever adds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def table(title: str, rows: list[tuple[str, str, str]]) -> None:
    """Name, measured, wanted."""
    print(f"\n{title}")
    width = max(len(row[0]) for row in rows)
    for name, measured, wanted in rows:
        print(f"  {name:<{width}}  {measured:>28}   {wanted}")
