"""The last part of the demonstration: a Spark pipeline over the segments that the client and the broker left behind.

It is written into `milepost-demo-pipeline` and run by `milepost pipeline run`, as anybody would: the log is checked, sessions of visitors
are found by a batch query, visits of each page in ten seconds by a stream with a watermark, all visits become Parquet, a report is made.
"""

from __future__ import annotations

import stat
import subprocess
import sys

from milepost.demo.visits import SESSIONS, TOPIC
from milepost.errors import InvalidConfiguration, KafkaStorage
from milepost.files import Disk, replace_file
from milepost.spark.sink.options import SinkOptions
from milepost.spark.spark_session import ensure_java, ensure_pyspark

FILE, WORK, OUT = "pipeline.yml", "work", "out"
SCHEMA = "ms bigint, page string, visitor string"
PIPELINE = f"""\
name: demo
data: ../DATA
work: {WORK}
stages:
  - verify: {{}}
  - transform:
      read: {{visits: {{topic: {TOPIC}, format: csv, schema: "{SCHEMA}"}}}}
      sql: |
        WITH gaps AS (
          SELECT *, ms - LAG(ms) OVER (PARTITION BY visitor ORDER BY ms) > 5000 AS is_new FROM visits
        ), numbered AS (
          SELECT *, SUM(CASE WHEN is_new IS NULL OR is_new THEN 1 ELSE 0 END) OVER (PARTITION BY visitor ORDER BY ms) AS session FROM gaps
        )
        SELECT visitor, session, MIN(ms) AS started, MAX(ms) - MIN(ms) AS lasted, COUNT(*) AS pages FROM numbered GROUP BY visitor, session
      to: [{{parquet: {OUT}/sessions}}, {{topic: {SESSIONS}, key: visitor}}]
  - transform:
      stream: true
      read: {{visits: {{topic: {TOPIC}, format: csv, schema: "{SCHEMA}"}}}}
      watermark: {{visits: [_time, 1 second]}}
      sql: SELECT WINDOW(_time, '10 seconds').start AS at, page, COUNT(*) AS visits FROM visits GROUP BY WINDOW(_time, '10 seconds'), page
      to: [{{parquet: {OUT}/pages}}]
  - export: {{topic: {TOPIC}, to: {OUT}/{TOPIC}, by: hour}}
  - report: {{to: {OUT}/report.html}}
"""
# Two cores and small shuffles: the log is a small one.
SETTINGS = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=1g")


class PipelineFailed(KafkaStorage):
    """The pipeline of the demonstration ended with an error."""


def what_is_missing() -> str | None:
    """Why Spark cannot run here, in one sentence."""
    try:
        ensure_pyspark()
        ensure_java()
    except InvalidConfiguration as error:
        return str(error)
    return None


def write_pipeline(directory: str, data: str, disk: Disk) -> str:
    """Write the pipeline into its own directory, after what an earlier demonstration left there is gone; its file."""
    if disk.exists(directory):
        ours = {FILE, WORK, OUT}
        strange = sorted(set(disk.listdir(directory)) - ours)
        if strange:
            raise KafkaStorage(
                f"{directory}: holds {strange[0]}, which this demonstration did not write; move the directory away first"
            )
        remove_all(directory, disk)
    disk.mkdir(directory)
    replace_file(disk, f"{directory}/{FILE}", PIPELINE.replace("DATA", data).encode())
    return f"{directory}/{FILE}"


def remove_all(path: str, disk: Disk) -> None:
    if not stat.S_ISDIR(disk.stat(path).st_mode):
        disk.unlink(path)
        return
    for name in disk.listdir(path):
        remove_all(f"{path}/{name}", disk)
    disk.rmdir(path)


def run_pipeline(file: str, data: str, disk: Disk) -> list[str]:
    """Run it in a process of its own; what it said about each stage. What Spark says at its start is heard only when it fails."""
    command = [sys.executable, "-P", "-m", "milepost.cli", "pipeline", "run", file, *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipelineFailed(f"{' '.join(command[3:])} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    staging = SinkOptions(data, None).staging
    if disk.exists(staging) and not disk.listdir(staging):
        disk.rmdir(staging)
    return done.stdout.splitlines()
