"""The jobs through Spark itself: few queries, each of which shows that what the other tests run in one process also runs in tasks."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import milepost.spark
from milepost.errors import CorruptRecord, InvalidArgument
from milepost.inspect.verify.verify import verify as plain_verify
from milepost.record.partitioner import murmur2
from milepost.spark.jobs.job import JobResult
from milepost.spark.jobs.tasks import run_tasks
from tests.cli.running import run
from tests.spark.logs import NOW, Batch, End, many_batches, plain_scan, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    write_log(data, "t", 0, list(many_batches(40)), segment_bytes=2048)
    write_log(data, "t", 1, [*many_batches(5), Batch((b"x",), producer=7), End(7, False)])
    return data


def fail_on_two(number: int) -> int:
    if number == 2:
        raise CorruptRecord("a.log: batch at byte 7: its CRC is wrong")
    return number * number


def die_once(mark: str) -> str:
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_tasks_give_their_results_in_order_and_tell_how_far_they_are(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    assert run_tasks(spark, [3, 1, 4], fail_on_two, lambda done, total: seen.append((done, total))) == [9, 1, 16]
    assert all(0 <= done <= total == 3 for done, total in seen)


def test_an_error_of_a_task_is_raised_as_what_it_was(spark: SparkSession) -> None:
    with pytest.raises(CorruptRecord, match=r"a\.log: batch at byte 7: its CRC is wrong"):
        run_tasks(spark, [1, 2], fail_on_two)


def test_a_killed_task_ends_the_job_and_the_next_run_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with pytest.raises(Exception, match=r"(?s)worker"):
        run_tasks(spark, [mark], die_once)
    assert run_tasks(spark, [mark], die_once) == ["done"]


def test_verify_stats_reindex_and_export(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    found: JobResult = milepost.spark.verify(spark, str(data), share=1, output=str(tmp_path / "findings.parquet"))
    assert (found.outcome, found.counts["records"], found.counts["partitions"]) == ("done", 137, 2)
    assert pq.read_table(tmp_path / "findings.parquet").num_rows == 0
    figures: JobResult = milepost.spark.stats(spark, str(data), keys=True)
    assert [row["distinct_keys"] for row in figures.details["partitions"]] == [3, 3]  # type: ignore[attr-defined]
    victim = next((data / "t-0").glob("*.timeindex"))
    victim.unlink()
    assert milepost.spark.reindex(spark, str(data)).outcome == "done"
    assert victim.exists()
    result: JobResult = milepost.spark.export(spark, str(data), "t", str(tmp_path / "out"))
    assert result.counts["records"] == 135
    table = spark.read.parquet(str(tmp_path / "out"))
    assert table.groupBy("date", "hour").count().collect()[0]["count"] == 135


def test_load_spreads_by_key_in_order_of_time_and_does_it_once(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "visits.json"
    visits = [{"id": number, "user": f"u{number % 7}", "at": NOW + number * 7919 % 1000} for number in range(300)]
    source.write_text("".join(json.dumps(visit) + "\n" for visit in visits))
    data = tmp_path / "data"
    arguments = {"key": "user", "timestamp": "at", "partitions": 3, "sort": True, "segment_bytes": 4096, "codec": "zstd"}
    assert milepost.spark.load(spark, str(source), str(data), "visits", **arguments).counts["records"] == 300
    assert milepost.spark.load(spark, str(source), str(data), "visits", **arguments).outcome == "nothing to do"
    found: Counter[int] = Counter()
    for partition in range(3):
        rows = plain_scan(data / f"visits-{partition}").rows
        found.update(json.loads(row["value"])["id"] for row in rows)
        assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)
        assert {(murmur2(row["key"]) & 0x7FFFFFFF) % 3 for row in rows} <= {partition}
    assert found == Counter(range(300))
    assert plain_verify(str(data)).findings == []


def test_a_load_that_failed_halfway_left_nothing_and_can_be_run_again(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    bad = spark.range(0, 100, 1, 4).selectExpr("id", "if(id = 99, raise_error('no'), cast(id AS string)) AS value")
    with pytest.raises(Exception, match="no"):
        milepost.spark.load(spark, bad, str(data), "t", value="value", name="mine")
    assert plain_scan(data / "t-0").rows == []
    good = spark.range(0, 100, 1, 4).selectExpr("id", "cast(id AS string) AS value")
    assert milepost.spark.load(spark, good, str(data), "t", value="value", name="mine").counts["records"] == 100
    assert sorted(int(row["value"]) for row in plain_scan(data / "t-0").rows) == list(range(100))


def test_a_frame_needs_a_name_and_columns_that_are_there(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3)
    with pytest.raises(InvalidArgument, match="give name="):
        milepost.spark.load(spark, frame, str(tmp_path), "t")
    with pytest.raises(InvalidArgument, match="there is no column key; the table has id"):
        milepost.spark.load(spark, frame, str(tmp_path), "t", name="x", key="key")


def test_compact_finds_the_newest_of_every_key(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    steps = [Batch(tuple(b"%d" % (row + number) for row in range(4)), keys=tuple(b"k%d" % (row * number % 11) for row in range(4)))
             for number in range(50)]  # fmt: skip
    write_log(data, "t", 0, [*steps, Batch((b"gone",), keys=(b"k0",), producer=7), End(7, False)], segment_bytes=1024)
    expected = {row["key"]: row["offset"] for row in plain_scan(data / "t-0").committed}
    result = milepost.spark.compact(spark, str(data), "t")
    assert (result.outcome, result.counts["keyless"]) == ("done", 0)
    rows = plain_scan(data / "t-0").committed
    assert {row["key"]: row["offset"] for row in rows} == expected
    assert len(rows) == len(expected)


def test_compact_leaves_records_without_a_key_alone(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "data", "t", 0, [Batch((b"a", b"b"), keys=(None, b"k"))])
    with pytest.raises(InvalidArgument, match="1 record has no key"):
        milepost.spark.compact(spark, str(tmp_path / "data"), "t")
    assert len(plain_scan(tmp_path / "data" / "t-0").rows) == 2


def test_the_command_runs_a_job_and_tells_its_summary(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    ran = run("pipeline", "verify", "--json", "--evidence", tmp_path / "evidence", data)
    assert ran.code == 0
    summary = json.loads(ran.lines[-1])
    assert (summary["job"], summary["counts"]["records"]) == ("verify", 137)
    assert Path(summary["evidence"]).exists()
