"""Figures of a log: what is counted, and that parts add up however the log is cut."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord
from milepost.spark.jobs.figures import Figures
from milepost.spark.jobs.job import JobResult
from milepost.spark.jobs.stats import merged, stats
from milepost.topic_partition import TopicPartition
from tests.spark.jobs.in_process import here
from tests.spark.logs import NOW, Batch, End, Gap, many_batches, write_log

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")
HOUR = 3_600_000


def figures(data: Path, **more: Any) -> JobResult:
    return stats(None, str(data), **more)  # type: ignore[arg-type]


def test_a_partition_in_numbers(tmp_path: Path) -> None:
    steps = [
        Batch((b"four", None), (0, 5 * HOUR), keys=(b"k", None)),
        Gap(10),
        Batch((b"x" * 500, b"x" * 500), (None,), codec=Codec.ZSTD),
        Batch((b"t",), producer=7),
        End(7, True),
    ]
    write_log(tmp_path, "t", 0, steps)
    result = figures(tmp_path)
    row = dict(result.details["partitions"][0])  # type: ignore[index]
    assert row.pop("log_bytes") > 300
    assert row == {
        "topic": "t", "partition": 0, "start_offset": 0, "end_offset": 16, "batches": 4, "control_batches": 1,
        "transactional_batches": 1, "records": 5, "keyless": 1, "tombstones": 1, "missing_offsets": 11, "oldest_ms": NOW,
        "newest_ms": NOW + 5 * HOUR, "distinct_keys": None,
    }  # fmt: skip


def test_hours_add_up_and_records_without_time_stand_apart(tmp_path: Path) -> None:
    write_log(tmp_path, "t", 0, [Batch((b"ab", b"c"), (0, 1), keys=(b"k",)), Batch((b"d", b"e"), (2 * HOUR, None), keys=(None,))])
    hours = figures(tmp_path).details["hours"]
    at = datetime(2023, 11, 14, 22, tzinfo=UTC)
    assert hours == [
        {"topic": "t", "hour": at, "records": 2, "bytes": 5},
        {"topic": "t", "hour": at.replace(day=15, hour=0), "records": 1, "bytes": 1},
        {"topic": "t", "hour": None, "records": 1, "bytes": 1},
    ]


def test_a_codec_has_the_ratio_of_what_it_holds_to_what_it_takes(tmp_path: Path) -> None:
    write_log(tmp_path, "t", 0, [Batch((b"y" * 1000,), codec=Codec.GZIP), Batch((b"z",))])
    found = {row["codec"]: row for row in figures(tmp_path).details["codecs"]}  # type: ignore[attr-defined]
    assert set(found) == {"gzip", "none"}
    assert found["gzip"]["plain_bytes"] > 1000 > 200 > found["gzip"]["stored_bytes"]
    assert found["none"]["ratio"] == 1.0


def test_a_log_cut_into_many_tasks_has_the_same_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, "t", 0, list(many_batches(100)), segment_bytes=2048, interval=64)
    whole = figures(tmp_path).details
    monkeypatch.setattr("milepost.spark.log_files.planning.LEAST_SHARE", 300)
    monkeypatch.setattr("milepost.spark.log_files.planning.LARGEST_SHARE", 300)
    assert figures(tmp_path).details == whole


def test_parts_leave_gaps_between_them() -> None:
    name = TopicPartition("t", 0)
    parts = [Figures(name, 10, 20, records=9, missing_offsets=1), Figures(name, 0, 5, records=5)]
    assert [(each.start, each.end, each.records, each.missing_offsets) for each in merged(iter(parts))] == [(0, 20, 14, 6)]


def test_damage_ends_the_job_with_its_place(tmp_path: Path) -> None:
    log = next(write_log(tmp_path, "t", 0, list(many_batches(5))).glob("*.log"))
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptRecord, match=f"{log}: batch at byte 0"):
        figures(tmp_path)


def test_tables_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    write_log(tmp_path / "data", "t", 0, list(many_batches(5)))
    figures(tmp_path / "data", output=str(tmp_path / "out"))
    assert pq.read_table(tmp_path / "out" / "partitions.parquet").column("records").to_pylist() == [15]
    assert pq.read_table(tmp_path / "out" / "hours.parquet").column("records").to_pylist() == [15]
    assert pq.read_table(tmp_path / "out" / "codecs.parquet").column("batches").to_pylist() == [5]
