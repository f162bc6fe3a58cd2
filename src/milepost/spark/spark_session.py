"""A Spark session that is ready for logs, or one sentence about what is missing.

Spark 4 runs on Java 17 or newer, and needs PySpark 4.2 for what this package builds on. Without the checks here a missing Java shows as
"JAVA_GATEWAY_EXITED" and a page of stack trace.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.errors import InvalidConfiguration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17
LEAST_PYSPARK = (4, 2)
JAVA_SECONDS = 120
ADVICE = "install it (Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME if it is not on the PATH"
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
}


def session(master: str | None = None, app: str = "milepost", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running session of this process, or a new one: on the cluster that `master`, spark-submit or SPARK_REMOTE names, else here."""
    ensure_pyspark()
    if "SPARK_REMOTE" not in os.environ:
        ensure_java()
    from pyspark.sql import SparkSession

    # Workers run the Python that has this package, not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**DEFAULTS, **(conf or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def ensure_pyspark() -> None:
    try:
        import pyspark
    except ImportError:
        raise InvalidConfiguration("PySpark is not installed; run pip install 'milepost[spark]'") from None
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < LEAST_PYSPARK:
        least = ".".join(map(str, LEAST_PYSPARK))
        raise InvalidConfiguration(
            f"PySpark {pyspark.__version__} is installed, and {least} or newer is needed; run pip install 'milepost[spark]'"
        )


def ensure_java() -> None:
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "no java is on the PATH"
        raise InvalidConfiguration(f"Spark needs Java {LEAST_JAVA} or newer, and {where}; {ADVICE}") from None
    version = java_version(answer.stderr + answer.stdout)
    if version is None or version < LEAST_JAVA:
        found = "of unknown version" if version is None else f"Java {version}"
        raise InvalidConfiguration(f"Spark needs Java {LEAST_JAVA} or newer, and {command} is {found}; {ADVICE}")


def java_version(text: str) -> int | None:
    """The feature release in the output of `java -version`: 17 of "17.0.15", 8 of "1.8.0_392"."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first
