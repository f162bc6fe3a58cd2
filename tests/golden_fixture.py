"""The golden archives for tests: unpacked lazily, once per set and test process.

`golden("unclean/kafka-3.9.1-torn-before")` is a shared case directory whose files are read-only; `golden(case, tmp_path)` is a
private copy that the test may change. A case directory holds `logdir/`, `expected/` and `case.json` (see `golden/README.md`).
The listings come from `golden/index.json`, so parametrizing a test unpacks nothing.
"""

from __future__ import annotations

import functools
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ARCHIVES = Path(__file__).parent / "golden"


class Golden:
    """The unpacked archives under `root`; call it with a case for that case's directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, case: str, private: Path | None = None) -> Path:
        if case not in index():
            raise KeyError(f"no golden case {case!r}; index.json names {len(index())} cases, for example {next(iter(index()))!r}")
        self._unpack(case.split("/")[0])
        shared = self.root / case
        if private is None:
            return shared
        copy = private / case
        shutil.copytree(shared, copy)
        for path in copy.rglob("*"):
            if path.is_file():
                path.chmod(0o644)
        return copy

    def partition(self, case: str, partition: str, private: Path | None = None) -> Path:
        """The directory of one partition, for example `page_visits-0`."""
        return self(case, private) / "logdir" / partition

    def expected(self, case: str, partition: str) -> dict[str, Any]:
        """What Kafka's dump tool and broker said about one partition."""
        return _json(self(case) / "expected" / f"{partition}.json")

    def case_json(self, case: str) -> dict[str, Any]:
        return _json(self(case) / "case.json")

    def decoded_text(self, case: str, partition: str) -> str:
        """The dump tool's decoding of an internal topic's partition."""
        return (self(case) / "expected" / f"{partition}.decoded.txt").read_text(encoding="utf-8")

    def _unpack(self, name: str) -> None:
        if (self.root / name).exists():
            return
        partial = self.root / f"{name}.partial"
        with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
            archive.extractall(partial, filter="data")
        for path in partial.rglob("*"):
            if path.is_file():
                path.chmod(0o444)
        (partial / name).rename(self.root / name)
        partial.rmdir()


def _json(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return parsed


@functools.cache
def index() -> dict[str, dict[str, Any]]:
    """Case -> {"kafka": version, "partitions": [names]}."""
    return _json(ARCHIVES / "index.json")


def all_cases(*sets: str) -> list[str]:
    """Every case, or those of the named sets: `all_cases("rolls", "edges")`."""
    return [case for case in index() if not sets or case.split("/")[0] in sets]


def all_partitions(*sets: str) -> Iterator[tuple[str, str]]:
    """(case, partition name) for every partition of every case, or of the named sets; for `parametrize`."""
    for case in all_cases(*sets):
        for partition in index()[case]["partitions"]:
            yield case, partition


def kafka_version(case: str) -> str:
    version: str = index()[case]["kafka"]
    return version


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def expected(golden: Golden) -> Any:
    """`expected(case, "page_visits-0")`: the parsed expectation of one partition."""
    return golden.expected


@pytest.fixture
def case_json(golden: Golden) -> Any:
    """`case_json(case)`: settings and facts of one case."""
    return golden.case_json
