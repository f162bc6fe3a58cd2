"""Backfill: a slice of a log in another topic, once, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost.errors import DirectoryLocked, InvalidArgument
from milepost.files import Disk
from milepost.inspect.verify.verify import verify
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.spark.jobs.backfill import backfill
from milepost.spark.jobs.job import JobResult
from tests.spark.jobs.in_process import count_operations, here, kill_at
from tests.spark.logs import NOW, Batch, End, many_batches, plain_scan, write_log

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    write_log(data, "t", 0, list(many_batches(40)), segment_bytes=2048)
    steps = [Batch((b"a", b"b"), headers=(("h", b"1"),)), Batch((b"gone",), producer=7), End(7, False), *many_batches(3, seed=1)]
    write_log(data, "t", 1, steps)
    return data


def copied(data: Path, into: Path, **more: Any) -> JobResult:
    return backfill(None, str(data), "t", str(into), "copy", **more)  # type: ignore[arg-type]


def contents(directory: Path) -> list[tuple[Any, ...]]:
    if not directory.exists():
        return []
    return [(row["key"], row["value"], row["timestamp"], row["headers"]) for row in plain_scan(directory).committed]


def test_every_partition_is_copied_in_order_and_a_second_run_copies_nothing(data: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    assert copied(data, into).counts["records"] == 131
    for partition in (0, 1):
        assert contents(into / f"copy-{partition}") == contents(data / f"t-{partition}")
    again = copied(data, into)
    assert (again.outcome, again.counts["records"]) == ("nothing to do", 0)
    assert copied(data, into, name="once more").counts["records"] == 131
    assert verify(str(into)).findings == []


def test_a_slice_by_time_and_one_by_offset(data: Path, tmp_path: Path) -> None:
    copied(data, tmp_path / "time", time=(NOW + 30, NOW + 60))
    assert [row[2] - NOW for row in contents(tmp_path / "time" / "copy-0")] == list(range(30, 60))
    offsets = ('{"t":{"0":100,"1":-2}}', '{"t":{"0":103,"1":1}}')
    copied(data, tmp_path / "offsets", offsets=offsets)
    assert contents(tmp_path / "offsets" / "copy-0") == contents(data / "t-0")[100:103]
    assert contents(tmp_path / "offsets" / "copy-1") == contents(data / "t-1")[:1]


def test_into_the_same_directory(data: Path) -> None:
    copied(data, data)
    assert contents(data / "copy-0") == contents(data / "t-0")
    assert verify(str(data)).findings == []


def test_spread_by_key_where_kafkas_clients_would(data: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    write_log(into, "copy", 0)
    write_log(into, "copy", 1)
    write_log(into, "copy", 2)
    copied(data, into, partitions="key")
    # murmur2 of k0, k1, k2, as Java computes it, modulo 3.
    found = {key: partition for partition in range(3) for key, *_ in contents(into / f"copy-{partition}")}
    assert found == {b"k0": 2, b"k1": 2, b"k2": 0}


def test_a_topic_with_too_few_partitions_is_refused(data: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "into", "copy", 0)
    with pytest.raises(InvalidArgument, match="copy has 1 partitions, and the slice comes from 2"):
        copied(data, tmp_path / "into")


def test_a_directory_that_somebody_has_open_is_refused_with_the_pid(data: Path, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    lock = DirectoryLock(str(tmp_path / "into"), Disk())
    with pytest.raises(DirectoryLocked, match=r"pid \d+"):
        copied(data, tmp_path / "into")
    lock.release()


def test_killed_at_any_moment_and_run_again_every_record_is_there_once(data: Path, tmp_path: Path) -> None:
    operations = count_operations(lambda: copied(data, tmp_path / "counted" / "into"))
    expected = [contents(data / "t-0"), contents(data / "t-1")]
    for operation in range(0, operations, max(1, operations // 24)):
        into = tmp_path / f"run{operation}" / "into"
        assert kill_at(operation, lambda into=into: copied(data, into))  # type: ignore[misc]
        copied(data, into)
        assert [contents(into / "copy-0"), contents(into / "copy-1")] == expected, operation
