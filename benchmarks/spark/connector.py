"""The jars of spark-sql-kafka, fetched once by Maven, and a Spark session that has them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker.kafka_jars import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POM = Path(__file__).with_name("pom.xml")


def jars() -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost-benchmarks"
    target = cache / f"spark-sql-kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not target.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable("Maven is not installed, which fetches Spark's connector")
        cache.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=cache))
        command = [maven, "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(partial)
            raise Unavailable(f"Maven could not fetch the connector: {done.stdout[-500:]}{done.stderr[-500:]}")
        partial.rename(target)
    return sorted(target.glob("*.jar"))


def spark_session(slots: int, directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{slots}]").appName("milepost benchmark")
    settings = {
        "spark.jars": ",".join(map(str, jars())),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.shuffle.partitions": str(slots),
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
