"""kill -9 of a real driver, with its JVM and tasks at work: what is run again ends as if nothing had happened."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from milepost.spark.jobs.export import export
from tests.spark.jobs.in_process import here
from tests.spark.logs import plain_scan

__all__ = ["here"]

ROWS = 100_000
DRIVER = """
import sys
import milepost.spark as jobs
source, data, target = sys.argv[1:]
spark = jobs.session("local[2]", conf={"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
jobs.load(spark, source, data, "t", key="user", value="id", partitions=2, format="json")
jobs.export(spark, data, "t", target)
"""


@pytest.mark.usefixtures("here")
def test_killed_while_it_loads_and_while_it_exports_every_id_is_there_once(tmp_path: Path) -> None:
    source, data, target = tmp_path / "ids.json", tmp_path / "data", tmp_path / "out"
    source.write_text("".join(json.dumps({"id": number, "user": f"u{number % 100}"}) + "\n" for number in range(ROWS)))
    command = [sys.executable, "-c", DRIVER, str(source), str(data), str(target)]
    kill_when(command, lambda: any((tmp_path / ".data.staging").glob("*/*/*.log")))
    kill_when(command, lambda: any((target / "_milepost" / "staging").glob("*/*/*.parquet")))
    # The rest without a JVM: what is there to go on from is the same.
    assert export(None, str(data), "t", str(target)).outcome == "done"  # type: ignore[arg-type]
    loaded = Counter(int(row["value"]) for partition in (0, 1) for row in plain_scan(data / f"t-{partition}").rows)
    assert loaded == Counter(range(ROWS))
    exported: Counter[int] = Counter()
    for path in target.glob("date=*/hour=*/*.parquet"):
        exported.update(
            int(value) for value in pq.read_table(path, columns=["value"], partitioning=None).column("value").to_pylist()
        )
    assert exported == loaded


def kill_when(command: list[str], is_time: Callable[[], bool]) -> None:
    """Start a driver, kill it when it is in the middle of something, and wait until what it started has noticed."""
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while driver.poll() is None and not is_time():
        time.sleep(0.005)
    assert driver.poll() is None, "the driver ended before it could be killed"
    driver.kill()
    driver.wait()
    while processes_of(driver.pid):
        time.sleep(0.05)


def processes_of(session: int) -> list[int]:
    """Those that the driver started: its session outlives it."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found
