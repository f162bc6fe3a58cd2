"""What the client tests leave behind for docs/compatibility.md, when the environment names a directory for it.

    <test file>-<process>.outcomes    a JSON line for each test, and one for each situation that it covers
    <test file>-<process>.tools       a JSON line for each run of one of Kafka's tools: version, tool, options
    <test file>-<process>-<n>.requests   a JSON line for each client software, API key and version that a broker was asked

A line is written as soon as it is known, each test process to files of its own.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

VARIABLE = "MILEPOST_COMPATIBILITY"


@dataclass(frozen=True)
class Outcome:
    """`situation` is empty for the test as a whole; `outcome` is pytest's: passed, failed or skipped."""

    test: str
    situation: str
    outcome: str


@dataclass(frozen=True)
class ToolRun:
    version: str
    tool: str
    options: list[str]


@dataclass(frozen=True)
class Asked:
    """`software` is what the client calls itself in ApiVersions; empty for one that does not say."""

    software: str
    software_version: str
    key: int
    version: int


Line = TypeVar("Line", Outcome, ToolRun, Asked)


class Recorder:
    def __init__(self, directory: Path | None):
        self.directory = directory
        self._numbers = itertools.count(1)
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def add(self, test_file: str, line: Outcome | ToolRun) -> None:
        if self.directory is not None:
            kind = "outcomes" if isinstance(line, Outcome) else "tools"
            with (self.directory / f"{test_file}-{os.getpid()}.{kind}").open("a") as stream:
                stream.write(json.dumps(asdict(line)) + "\n")

    def requests_of(self, test_file: str) -> Path | None:
        """Where a broker writes down what it is asked."""
        if self.directory is None:
            return None
        return self.directory / f"{test_file}-{os.getpid()}-{next(self._numbers)}.requests"


@functools.cache
def recorder() -> Recorder:
    named = os.environ.get(VARIABLE)
    return Recorder(Path(named).resolve() if named else None)


def lines_of(directory: Path, kind: type[Line], test_file: str) -> Iterator[Line]:
    """Everything of one kind that the processes of a test file wrote."""
    ending = {Outcome: "outcomes", ToolRun: "tools", Asked: "requests"}[kind]
    for path in sorted(directory.glob(f"{test_file}-*.{ending}")):
        for line in path.read_text().splitlines():
            fields: dict[str, Any] = json.loads(line)
            yield kind(**fields)
