"""Jobs whose Python workers may take only so much (`spark.executor.pyspark.memory`): a limit on the address space of the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import milepost

WORKER = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]) << 20,) * 2)
import pickle
from milepost.spark.jobs.export_task import ExportTask, export_split
from milepost.spark.jobs.tasks import _attempt
from milepost.spark.options import SourceOptions
from milepost.spark.open_transport import open_transport
from milepost.spark.bounds import batch_ranges
options = SourceOptions.parse({"path": sys.argv[1], "maxBytesPerPartition": "1g"}, streaming=False)
with open_transport(options) as transport:
    (split,) = transport.plan(batch_ranges(options, transport, 0))
columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
task = ExportTask(0, 1, split, columns, sys.argv[2], "staging", "hour", "snappy")
kind, value = _attempt(export_split, task)
print(json.dumps([kind, value.rows if kind == "done" else str(value)]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 MB in 80,000 records of three hours."""
    root = tmp_path_factory.mktemp("data")
    with milepost.open_log(root / "t-0", mode="a") as log:
        for number in range(80):
            noise = os.urandom(1000)
            time = 1526384718000 + number % 3 * 3_600_000
            log.append([milepost.Record(timestamp=time, key=b"%d" % each, value=noise) for each in range(900)])
    return root


def exported(data: Path, target: Path, megabytes: int) -> list[object]:
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(data), str(target), str(megabytes)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


def test_export_runs_with_512_megabytes(data: Path, tmp_path: Path) -> None:
    assert exported(data, tmp_path / "out", 512) == ["done", 72_000]


def test_export_that_has_too_little_says_what_suffices(data: Path, tmp_path: Path) -> None:
    kind, sentence = exported(data, tmp_path / "out", 360)
    assert kind == "failed"
    assert "a task may take 360 MB (spark.executor.pyspark.memory), and that does not suffice" in str(sentence)
    assert "512m is the least" in str(sentence)
