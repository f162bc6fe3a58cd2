"""A standalone cluster of a master and two workers: milepost goes along as a zip of its sources, and every executor reads with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ports import held_port
from tests.spark.cluster.spark_programs import environment, program
from tests.spark.logs import many_batches, write_log
from tests.waiting import PROCESS_PATIENCE, until

pytestmark = pytest.mark.trouble
SOURCE = Path(__file__).parents[3] / "src"
JOB = """
import json, os, sys
from pyspark.sql import functions as f
import milepost.spark as jobs

spark = jobs.session()
data = sys.argv[1]
rows = spark.read.format("milepost").option("path", data).option("subscribe", "t").option("minPartitions", 16).load()

@f.udf("string", useArrow=False)
def where(offset):
    import os, time
    import milepost.record.kernel
    time.sleep(0.001)
    return os.getcwd() + "|" + milepost.record.kernel.__file__

seen = sorted(row[0] for row in rows.select(where("offset")).distinct().collect())
copied = rows.selectExpr("key", "value").write.format("milepost").mode("append").option("path", data + "-copy").option("topic", "t")
copied.option("partitions", 2).save()
rows.selectExpr("value").write.format("milepost").mode("append").option("path", "relative").option("topic", "t").save()
result = {
    "relative": jobs.read(spark, os.path.abspath("relative"), "t").count(),
    "master": spark.sparkContext.master,
    "rows": rows.count(),
    "offsets": rows.agg(f.sum("offset")).collect()[0][0],
    "seen": seen,
    "verified": dict(jobs.verify(spark, data).counts),
    "copied": jobs.read(spark, data + "-copy", "t").count(),
}
print("RESULT " + json.dumps(result))
"""


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output, subprocess.Popen(command, env=environment(), stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes], times: int = 1) -> None:
    def said() -> bool:
        assert process.poll() is None, log.read_text()
        return log.read_text().count(text) >= times

    until(said, f"{log} says {text!r}", PROCESS_PATIENCE, 0.2)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that two workers of one core have joined."""
    with ExitStack() as stack:
        port = stack.enter_context(held_port())
        url = f"spark://127.0.0.1:{port}"
        place = ["--host", "127.0.0.1", "--port"]
        command = [program("spark-class"), "org.apache.spark.deploy.master.Master", *place, str(port), "--webui-port", "0"]
        log = tmp_path / "master.log"
        process = stack.enter_context(running(command, log))
        wait_for("New state: ALIVE", log, process)
        for number in range(2):
            worker = [program("spark-class"), "org.apache.spark.deploy.worker.Worker", *place, "0", "--webui-port", "0"]
            worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"worker-{number}"), url]
            stack.enter_context(running(worker, tmp_path / f"worker-{number}.log"))
        wait_for("Registering worker", log, process, times=2)
        yield url


def zipped(target: Path) -> Path:
    """The sources and nothing else: no compiled kernel."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("milepost", "pyspark_milepost"):
            for path in sorted((SOURCE / package).rglob("*.py")):
                archive.write(path, path.relative_to(SOURCE))
    return target


def test_zip_of_the_sources_is_shipped_and_read_with_on_both_workers(master: str, tmp_path: Path) -> None:
    for partition in range(2):
        write_log(tmp_path / "data", "t", partition, list(many_batches(400, seed=partition)), segment_bytes=8192)
    (tmp_path / "job.py").write_text(JOB)
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.driver.host": "127.0.0.1",
        "spark.locality.wait": "0s",
    }
    command = [program("spark-submit"), "--master", master, "--py-files", str(zipped(tmp_path / "milepost.zip"))]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    ran = subprocess.run(
        [*command, str(tmp_path / "job.py"), str(tmp_path / "data")],
        cwd=tmp_path,
        env={**environment(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    assert found, ran.stderr[-4000:]
    result = json.loads(found[0].removeprefix("RESULT "))
    records = result["verified"]["records"]
    assert (result["master"], result["rows"], result["copied"], result["relative"]) == (master, records, records, records)
    assert not list(tmp_path.glob("worker-*/**/.relative.staging"))
    assert result["offsets"] == sum(sum(range(records // 2)) for _ in range(2))
    directories, kernels = zip(*(each.split("|") for each in result["seen"]), strict=True)
    assert {Path(directory).relative_to(tmp_path).parts[0] for directory in directories} == {"worker-0", "worker-1"}
    assert all(kernel.endswith(f"milepost.zip{os.sep}milepost/record/kernel.py") for kernel in kernels), kernels
