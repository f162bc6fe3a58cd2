"""spark-sql-kafka, for tests that compare with it: four jars that Maven fetches once into the user's cache."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest

from tests.interop.toolchain import cached, make, unavailable

POM = Path(__file__).parents[2] / "benchmarks" / "spark" / "pom.xml"


@functools.cache
def connector_jars() -> tuple[Path, ...]:
    """Empty where they cannot be had: every other test with Spark runs without them."""
    maven = shutil.which("mvn")
    if maven is None:
        return ()

    def fetch(target: Path) -> None:
        make(
            [maven, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={target}"],
            "Spark's connector",
        )

    try:
        return tuple(sorted(cached("spark-sql-kafka", [POM], fetch).glob("*.jar")))
    except pytest.skip.Exception:
        return ()


def need_connector() -> None:
    if not connector_jars():
        unavailable("spark-sql-kafka could not be fetched: it needs Maven and a registry")
