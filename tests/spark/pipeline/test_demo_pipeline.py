"""The pipeline that `make demo` ends with, over what the demonstration's broker leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
