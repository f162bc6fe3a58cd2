"""The pipeline that `make demo` ends with, over what the demonstration's broker leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from milepost.demo.pipeline import write_pipeline
from milepost.demo.visits import visit, write_topic
from milepost.files import Disk
from milepost.spark.pipeline.definition import read_pipeline
from milepost.spark.pipeline.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_sessions_pages_table_and_report_come_of_it(spark: SparkSession, tmp_path: Path) -> None:
    write_topic(str(tmp_path / "data"), Disk())
    done = run(spark, read_pipeline(write_pipeline(str(tmp_path / "demo"), "data", Disk())))
    assert [each.outcome for each in done.stages] == ["done"] * 5
    out = tmp_path / "demo" / "out"
    sessions = spark.read.parquet(str(out / "sessions"))
    assert sessions.selectExpr("sum(pages)", "count(DISTINCT visitor)").collect()[0][:] == (1000, 89)
    assert spark.read.parquet(str(out / "page_visits")).count() == 1000
    # Windows end at full tens of seconds; the watermark is one second behind the newest visit.
    last = visit(999).timestamp // 10_000 * 10_000
    assert visit(999).timestamp - last > 1000, "so the watermark is in the last window"
    expected = sum(visit(number).timestamp < last for number in range(1000))
    assert spark.read.parquet(str(out / "pages")).selectExpr("sum(visits)").collect()[0][0] == expected
    assert "<h1>demo</h1>" in (out / "report.html").read_text()


@pytest.mark.trouble
def test_whole_demonstration_with_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "milepost.demo"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    for place in ("out/report.html", "out/page_visits", "out/sessions", "out/pages", "work"):
        assert f"milepost-demo-pipeline/{place} " in done.stdout
        assert (tmp_path / "milepost-demo-pipeline" / place).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["milepost-demo", "milepost-demo-pipeline"]
