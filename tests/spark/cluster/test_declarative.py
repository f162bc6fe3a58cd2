"""The shipped project for Spark Declarative Pipelines, run by `spark-pipelines`: what is new in the log is new in the tables."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import milepost
from tests.spark.cluster.spark_programs import environment, program

pytest.importorskip("grpc_status", reason="declarative pipelines need pip install 'milepost[connect]'")
pytestmark = pytest.mark.trouble
EXAMPLE = Path(__file__).parents[3] / "examples" / "declarative"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, found, ignore=shutil.ignore_patterns("spark-warehouse", "metastore_db"))
    spec = (found / "spark-pipeline.yml").read_text()
    for old, new in (("file:///tmp/page_visits", f"file://{tmp_path}/storage"), ("../page_visits/data", str(tmp_path / "data"))):
        assert old in spec
        spec = spec.replace(old, new)
    (found / "spark-pipeline.yml").write_text(spec)
    return found


def visit_pages(data: Path, urls: list[str]) -> None:
    with milepost.open_log(data / "page_visits-0", mode="a") as log:
        for url in urls:
            event = {"user": "user-1", "url": url, "at": "2018-05-15T11:45:00Z"}
            log.append([milepost.Record(timestamp=1526384700000, value=json.dumps(event).encode())])


def pages(project: Path) -> dict[str, int]:
    files = (project / "spark-warehouse" / "pages").glob("*.parquet")
    return {row["url"]: row["visits"] for path in files for row in pq.read_table(path, partitioning=None).to_pylist()}


def run(project: Path) -> None:
    ran = subprocess.run(
        [program("spark-pipelines"), "--conf", "spark.sql.catalogImplementation=hive", "run"],
        cwd=project,
        env={**environment(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
    assert "Run is COMPLETED" in ran.stdout + ran.stderr


def test_second_run_takes_what_is_new(project: Path, tmp_path: Path) -> None:
    urls = ["/home"] * 3 + ["/docs"]
    visit_pages(tmp_path / "data", urls)
    run(project)
    assert pages(project) == Counter(urls)
    visit_pages(tmp_path / "data", ["/docs"])
    run(project)
    assert pages(project) == Counter([*urls, "/docs"])
