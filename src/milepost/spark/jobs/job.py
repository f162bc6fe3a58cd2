"""What every bulk job has in common: it counts, it checks itself, and it leaves evidence.

    with Job("export", {"path": "data", "topic": "page_visits"}, evidence="evidence") as job:
        job.count(records=1250)
        job.check("every offset is accounted for", True, "offsets 0 to 1249")

The evidence is one JSON file per run, `JOB-TIME-ID.json` in a directory that the caller names:

    job, id, outcome     what ran; "done", "findings", "nothing to do", or "failed: …"
    started, ended       ISO 8601, in UTC
    inputs               what it was told
    counts               what it did, in numbers
    checks               [name, passed, detail] of everything it made sure of
    versions             of milepost, Python, PySpark, pyarrow and Java

A check that does not hold ends the job with an error, after the evidence of it was written. Without a directory no file is
written, and `result` holds the same.

Not promised: evidence of a run that was killed. Its effects, if any, are found by the run that follows.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from types import TracebackType
from typing import TYPE_CHECKING

import milepost
from milepost.clock import Clock, SystemClock
from milepost.errors import MilepostError
from milepost.files import Disk, make_directories, replace_file
from milepost.inspect.times import format_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE, NOTHING, FINDINGS = "done", "nothing to do", "findings"


class CheckFailed(MilepostError):
    """A job found its own result wrong."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended: `counts` are its numbers, `evidence` is the file it left, if any."""

    job: str
    outcome: str
    counts: Mapping[str, int]
    checks: tuple[tuple[str, bool, str], ...]
    evidence: str | None
    details: Mapping[str, object] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {
            "type": "summary", "job": self.job, "outcome": self.outcome, "counts": dict(self.counts),
            "checks": [list(check) for check in self.checks], "evidence": self.evidence,
        }  # fmt: skip

    def summary(self) -> str:
        numbers = ", ".join(f"{value:,} {_noun(name, value)}" for name, value in self.counts.items())
        passed = sum(check[1] for check in self.checks)
        checked = f"; {passed} of {len(self.checks)} checks passed" if self.checks else ""
        return f"{self.job}: {self.outcome}: {numbers}{checked}"


def _noun(name: str, number: int) -> str:
    """`commits`, `files finished`; one of them is a `commit`, a `file finished`."""
    noun, *rest = name.split("_")
    if number == 1:
        noun = re.sub(r"(?<=ch)es$|(?<!s)s$", "", noun) if not noun.endswith("ies") else f"{noun[:-3]}y"
    return " ".join([noun, *rest])


class Job:
    def __init__(
        self,
        name: str,
        inputs: Mapping[str, object],
        evidence: str | None = None,
        spark: SparkSession | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ):
        self.name = name
        self.inputs = dict(inputs)
        self.id = uuid.uuid4().hex[:12]
        self.outcome = DONE
        self.counts: dict[str, int] = {}
        self.checks: list[tuple[str, bool, str]] = []
        self.details: dict[str, object] = {}
        self._directory = evidence
        self._file: str | None = None
        self._spark = spark
        self._disk = disk or Disk()
        self._clock = clock or SystemClock()
        self._started = self._clock.now_ms()

    def count(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def check(self, name: str, passed: bool, detail: str) -> None:
        """Note what was made sure of; CheckFailed when it does not hold."""
        self.checks.append((name, passed, detail))
        if not passed:
            raise CheckFailed(f"{self.name}: {name} does not hold: {detail}; nothing that it concerns was published")

    @property
    def result(self) -> JobResult:
        return JobResult(self.name, self.outcome, dict(self.counts), tuple(self.checks), self._file, dict(self.details))

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            self.outcome = f"failed: {error}"
        if self._directory is not None:
            self._write(self._directory)

    def _write(self, directory: str) -> None:
        make_directories(self._disk, directory)
        started = format_time(self._started)
        name = f"{self.name}-{started[:19].replace(':', '').replace('-', '')}-{self.id}.json"
        content = {
            "job": self.name, "id": self.id, "outcome": self.outcome, "started": started,
            "ended": format_time(self._clock.now_ms()), "inputs": self.inputs, "counts": self.counts,
            "checks": self.checks, **self.details, "versions": versions(self._spark),
        }  # fmt: skip
        self._file = f"{directory}/{name}"
        replace_file(self._disk, self._file, json.dumps(content, indent=1, default=str).encode() + b"\n")


def versions(spark: SparkSession | None) -> dict[str, str]:
    found = {"milepost": milepost.__version__, "python": platform.python_version()}
    for name in ("pyspark", "pyarrow", "deltalake"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if spark is not None:
        try:
            found["java"] = str(spark.sparkContext._jvm.System.getProperty("java.version"))  # type: ignore[union-attr]
        except Exception:  # Spark Connect: the JVM is elsewhere
            found["spark"] = spark.version
    return found
