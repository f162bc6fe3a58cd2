"""Spark's own programs, as they come with PySpark, and the environment they run in: this Python, loopback, nobody else's Spark."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def program(name: str) -> str:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parent / "bin" / name)


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTEST"))}
    # The shell scripts look for python3 on the PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
