"""No Java, the wrong Java, no PySpark, the wrong PySpark: one sentence each that says what to install."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from milepost.errors import InvalidConfiguration
from milepost.spark.spark_session import ensure_java, ensure_pyspark, java_version, session


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for JAVA_HOME; put a program at bin/java."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def says(java: Path, text: str) -> None:
    program = java / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023', 21),
        ("what?", None),
    ],
)
def test_version_of_java_is_read(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_java_that_is_new_enough_is_fine(java: Path) -> None:
    says(java, 'openjdk version "21.0.2" 2024-01-16')
    ensure_java()


def test_no_java_is_one_sentence(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfiguration, match=rf"needs Java 17 or newer, and JAVA_HOME is {java}.*install it \(Debian: apt"):
        ensure_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java))
    with pytest.raises(InvalidConfiguration, match="no java is on the PATH; install it"):
        session()


def test_old_java_is_one_sentence(java: Path) -> None:
    says(java, 'openjdk version "11.0.22" 2024-01-16')
    with pytest.raises(InvalidConfiguration, match=r"Spark needs Java 17 or newer, and .*/bin/java is Java 11; install it"):
        ensure_java()


def test_no_pyspark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InvalidConfiguration, match=r"PySpark is not installed; run pip install 'milepost\[spark\]'"):
        session()


def test_old_pyspark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    old = ModuleType("pyspark")
    old.__version__ = "3.5.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", old)
    with pytest.raises(InvalidConfiguration, match=r"PySpark 3.5.1 is installed, and 4.2 or newer is needed; run pip install"):
        ensure_pyspark()


def modules_behind(first: str, then: str) -> list[str]:
    code = f"import sys; {first}; before = set(sys.modules); {then}; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    watched = ("milepost", "pyspark_milepost", "pyspark", "pyarrow", "numpy", "pandas")
    return [name for name in found if name.split(".")[0] in watched]


def test_importing_the_package_and_the_format_costs_next_to_nothing() -> None:
    found = modules_behind("import importlib", "import milepost.spark")
    assert found == ["milepost", "milepost._version", "milepost.spark", "milepost.spark.names"]
    found = modules_behind("import pyspark.sql.datasource", "import pyspark_milepost")
    assert found == [
        "milepost",
        "milepost._version",
        "milepost.spark",
        "milepost.spark.names",
        "milepost.spark.source",
        "pyspark_milepost",
    ]
