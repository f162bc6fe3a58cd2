"""Dying at a named step: a function is patched so that one of its calls ends the process with SIGKILL, or everything its driver started.

A step is plain values, so it crosses to wherever the function is called: into tasks, into the process that commits, into a driver. Whoever
dies leaves a mark first and nobody dies at a mark that is there: a second run goes through.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Step:
    place: str
    """module:function or module:Class.method"""
    call: int = 1
    """Counted in each process from when it begins its work."""
    after: bool = False
    """Whether the call is made first."""
    with_all: bool = False
    """Whether the driver dies, its JVM and all their workers, or only the process that makes the call."""
    mark: str = ""

    def __str__(self) -> str:
        name = self.place.removeprefix("milepost.").removeprefix("spark.").replace(":", ".")
        return f"{'after' if self.after else 'before'}-{name}{f'-{self.call}' if self.call > 1 else ''}"

    def marked(self, mark: Path, *, with_all: bool) -> Step:
        return replace(self, mark=str(mark), with_all=with_all)

    @property
    def was_reached(self) -> bool:
        return os.path.exists(self.mark)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Step:
        return cls(**json.loads(text))


@contextlib.contextmanager
def armed(step: Step) -> Iterator[None]:
    """Within this, the step is deadly for this process."""
    module, _, path = step.place.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    real = getattr(owner, name)
    calls = [0]

    def deadly(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        is_it = calls[0] == step.call
        if is_it and not step.after:
            die(step)
        found = real(*arguments, **named)
        if is_it and step.after:
            die(step)
        return found

    setattr(owner, name, deadly)
    try:
        yield
    finally:
        setattr(owner, name, real)


def die(step: Step) -> None:
    try:
        os.close(os.open(step.mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if step.with_all:
        driver = os.getsid(0)
        # More than once: the first to go may have been starting another. The driver first: it must not live to see its JVM gone.
        while others := [pid for pid in processes_of(driver) if pid != os.getpid()]:
            for pid in sorted(others, key=lambda pid: pid != driver):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def processes_of(session: int) -> list[int]:
    """Those of one session: a driver that was started in one of its own, and all that came of it.

    A process whose first thread is a zombie has its files open, and its locks, as long as it has another thread.
    """
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            threads = len(list((status.parent / "task").iterdir()))
        except OSError:
            continue
        if int(fields[3]) == session and (fields[0] != "Z" or threads > 1):
            found.append(int(status.parent.name))
    return found
