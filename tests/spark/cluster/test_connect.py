"""Spark Connect: the program has no JVM, a server elsewhere does the work, and the format, the sink, streams and jobs are the same."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import held_port
from tests.spark.cluster.spark_programs import environment, program
from tests.spark.logs import many_batches, write_log
from tests.waiting import PROCESS_PATIENCE, until

pytest.importorskip("grpc_status", reason="Spark Connect needs pip install 'milepost[connect]'")
pytestmark = pytest.mark.trouble
CLIENT = """
import json, sys
import milepost.spark as jobs

spark = jobs.session()
data, work = sys.argv[1:]
rows = spark.read.format("milepost").option("path", data).option("subscribe", "t").load()
rows.selectExpr("key", "value").write.format("milepost").mode("append").option("path", work + "/copy").option("topic", "t").save()
stream = spark.readStream.format("milepost").option("path", data).option("startingOffsets", "earliest").load()
query = stream.writeStream.format("parquet").option("path", work + "/table").option("checkpointLocation", work + "/checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
try:
    rows.selectExpr("value").write.format("milepost").mode("append").option("path", "copy").option("topic", "t").save()
    relative = "written"
except Exception as error:
    relative = str(error)
exported = jobs.export(spark, data, "t", work + "/export")
print("RESULT " + json.dumps({
    "kind": type(spark).__module__,
    "relative": relative,
    "rows": rows.count(),
    "copied": jobs.read(spark, work + "/copy", "t").count(),
    "streamed": spark.read.parquet(work + "/table").count(),
    "exported": exported.counts["records"],
    "verified": jobs.verify(spark, data).counts["records"],
}))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with held_port() as port, served(tmp_path, port):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def served(tmp_path: Path, port: int) -> Iterator[None]:
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    command = [
        program("spark-submit"),
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=tmp_path,
            env={**environment(), "PYSPARK_PYTHON": sys.executable},
            stdout=output,
            stderr=output,
        )
    try:

        def listens() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        until(listens, "the server listens", PROCESS_PATIENCE, 0.2)
        yield
    finally:
        process.terminate()
        process.wait()


def test_everything_goes_through_a_server(server: str, tmp_path: Path) -> None:
    write_log(tmp_path / "data", "t", 0, list(many_batches(50)))
    (tmp_path / "work").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT, str(tmp_path / "data"), str(tmp_path / "work")],
        env={**environment(), "SPARK_REMOTE": server, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    assert found, ran.stderr[-4000:]
    result = json.loads(found[0].removeprefix("RESULT "))
    assert result.pop("kind") == "pyspark.sql.connect.session"
    assert "path is copy, a relative path" in result.pop("relative")
    assert result == dict.fromkeys(("rows", "copied", "streamed", "exported", "verified"), 150)
