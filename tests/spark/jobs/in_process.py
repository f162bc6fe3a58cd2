"""Jobs without a JVM: their tasks run here, one after the other, and a run can be killed at any of its disk operations."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from milepost.files import Disk
from milepost.spark.jobs import backfill, compact, export, reindex, stats, verify

OPERATIONS = ("rename", "fsync", "pwrite", "unlink", "mkdir", "truncate", "sync_directory")


def run_here(spark: object, tasks: Sequence[Any], work: Callable[[Any], Any], progress: object = None) -> list[Any]:
    """As `tasks.run_tasks`: what crosses to a task is pickled, and so is what comes back."""
    return [pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task))))) for task in tasks]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job runs its tasks in this process."""
    for module in (backfill, compact, export, reindex, stats, verify):
        monkeypatch.setattr(module, "run_tasks", run_here)
    # Nobody pulls the plug here: what a killed process leaves does not depend on the medium.
    for name in ("fsync", "sync_directory"):
        monkeypatch.setattr(Disk, name, lambda *arguments: None)


def count_operations(work: Callable[[], object]) -> int:
    """How many disk operations a run takes, done in a child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            seen = _counting(None)
            work()
            os.write(write, str(seen[0]).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as found:
        return int(found.read())


def kill_at(operation: int, work: Callable[[], object]) -> bool:
    """Run in a child that is killed (-9) before its disk operation of that number; whether it came so far."""
    child = os.fork()
    if child == 0:
        try:
            _counting(operation)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _counting(last: int | None) -> list[int]:
    seen = [0]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            if seen[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            seen[0] += 1
            return original(*arguments)

        return operation

    for name in OPERATIONS:
        setattr(Disk, name, counted(getattr(Disk, name)))
    return seen
