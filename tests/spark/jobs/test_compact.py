"""Compaction: the newest record of every key stays, at its offset, and a broker's cleaner would say the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from milepost.codec.compression import Codec
from milepost.errors import DirectoryLocked, InvalidArgument
from milepost.files import Disk
from milepost.inspect.verify.verify import verify
from milepost.log.cleaning.cleaning_plan import Plan
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.spark.jobs import compact as module
from milepost.spark.jobs.compact import compact
from milepost.spark.jobs.job import JobResult
from tests.quick_disk import QuickDisk
from tests.spark.jobs.in_process import count_operations, here, kill_at
from tests.spark.logs import NOW, Batch, End, Step, plain_scan, write_log

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here", "newest_in_python")


@pytest.fixture
def newest_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark does in step 2, done by hand: the newest committed offset of every key."""

    def find(self: Any, plans: Sequence[Plan], drop_keyless: bool) -> None:
        rows = []
        for plan in plans:
            found = [row for row in plain_scan(Path(plan.log.directory)).committed if row["offset"] < plan.upper_bound]
            if any(row["key"] is None for row in found) and not drop_keyless:
                raise InvalidArgument("records have no key")
            newest = {row["key"]: row["offset"] for row in found if row["key"] is not None}
            name = plan.log.partition
            rows += [{"topic": name.topic, "partition": name.partition, "offset": offset} for offset in sorted(newest.values())]
        schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
        (Path(self.staging) / "survivors").mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), f"{self.staging}/survivors/part-0.parquet")

    monkeypatch.setattr(module._Compaction, "_find_newest", find)


def compacted(data: Path, **more: Any) -> JobResult:
    return compact(None, str(data), "t", **more)  # type: ignore[arg-type]


def newest(data: Path, partition: int = 0) -> dict[bytes, tuple[int, bytes | None]]:
    return {row["key"]: (row["offset"], row["value"]) for row in plain_scan(data / f"t-{partition}").committed}


def rows(data: Path, partition: int = 0) -> list[tuple[bytes, tuple[int, bytes | None]]]:
    return [(row["key"], (row["offset"], row["value"])) for row in plain_scan(data / f"t-{partition}").committed]


def many(count: int = 60) -> list[Step]:
    """Keys again and again, tombstones, transactions that end either way."""
    steps: list[Step] = []
    for number in range(count):
        values = tuple(b"%d-%d" % (number, row) if (number + row) % 9 else None for row in range(4))
        keys = tuple(b"k%d" % ((number * 4 + row) % 37) for row in range(4))
        steps.append(Batch(values, keys=keys, codec=Codec.LZ4 if number % 3 else Codec.NONE))
        if number % 20 == 5:
            steps += [Batch((b"in a transaction",), keys=(b"k%d" % (number % 37),), producer=7), End(7, number % 40 == 5)]
    return steps


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    write_log(data, "t", 0, many(), segment_bytes=1024)
    write_log(data, "t", 1, many(12), segment_bytes=1024)
    return data


def test_each_key_has_its_newest_record_and_nothing_older(data: Path) -> None:
    expected = [newest(data, 0), newest(data, 1)]
    result = compacted(data)
    assert (result.outcome, result.counts["partitions"]) == ("done", 2)
    for partition in (0, 1):
        found = rows(data, partition)
        assert dict(found) == expected[partition]
        assert len(found) == len(expected[partition])


def test_the_directory_is_whole_afterwards_and_a_second_run_does_nothing(data: Path) -> None:
    compacted(data)
    report = verify(str(data))
    assert (report.findings, report.notes) == ([], [])
    before = {path: path.read_bytes() for path in data.rglob("*.log")}
    assert compacted(data).outcome == "nothing to do"
    assert {path: path.read_bytes() for path in data.rglob("*.log")} == before
    assert not list((data.parent / ".data.staging").glob("compact-*"))


def test_what_is_appended_later_is_compacted_with_the_rest(data: Path) -> None:
    compacted(data)
    with open_log(str(data / "t-0"), "a", disk=QuickDisk()) as log:
        log.append([Record(0, NOW, b"k1", b"newest of all")])
        end = log.end_offset
    compacted(data)
    assert dict(rows(data))[b"k1"] == (end - 1, b"newest of all")
    assert [key for key, _ in rows(data)].count(b"k1") == 1


def test_a_tombstone_stays_until_its_time_is_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_log(data, "t", 0, [Batch((b"old",), keys=(b"k",)), Batch((None,), keys=(b"k",)), Batch((b"v",), keys=(b"other",))])
    compacted(data)
    assert rows(data) == [(b"k", (1, None)), (b"other", (2, b"v"))]
    with open_log(str(data / "t-0"), "a", disk=QuickDisk()) as log:
        log.append([Record(0, NOW, b"third", b"v")])
    compacted(data, config={"delete.retention.ms": 0})
    # The horizon was set by the first compaction, a day ahead: it is not over.
    assert dict(rows(data))[b"k"] == (1, None)


def test_a_tombstone_whose_time_is_over_goes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_log(data, "t", 0, [Batch((None,), keys=(b"k",)), Batch((b"v",), keys=(b"other",))])
    compacted(data, config={"delete.retention.ms": 0})
    with open_log(str(data / "t-0"), "a", disk=QuickDisk()) as log:
        log.append([Record(0, NOW, b"third", b"v")])
    compacted(data, config={"delete.retention.ms": 0})
    assert [key for key, _ in rows(data)] == [b"other", b"third"]


def test_records_of_an_open_transaction_and_behind_stay_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    steps = [Batch((b"1", b"2"), keys=(b"k",)), Batch((b"open",), keys=(b"k",), producer=7), Batch((b"3", b"4"), keys=(b"k",))]
    write_log(data, "t", 0, steps)
    before = plain_scan(data / "t-0").rows
    assert compacted(data).outcome == "nothing to do"
    assert plain_scan(data / "t-0").rows == before


def test_records_without_a_key_are_not_dropped_unasked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_log(data, "t", 0, [Batch((b"1",), keys=(None,)), Batch((b"2",), keys=(b"k",))])
    with pytest.raises(InvalidArgument, match="have no key"):
        compacted(data)
    assert len(plain_scan(data / "t-0").rows) == 2
    compacted(data, drop_keyless=True)
    assert [row["value"] for row in plain_scan(data / "t-0").rows] == [b"2"]


def test_a_directory_that_somebody_has_open_is_refused_with_the_pid(data: Path) -> None:
    lock = DirectoryLock(str(data), Disk())
    with pytest.raises(DirectoryLocked, match=r"pid \d+"):
        compacted(data)
    lock.release()


def test_a_topic_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"there is no topic u in .*; topics there: t"):
        compact(None, str(data), "u")  # type: ignore[arg-type]


def test_killed_at_any_moment_and_run_again_each_key_is_there_once(tmp_path: Path) -> None:
    original = tmp_path / "original"
    write_log(original, "t", 0, many(24), segment_bytes=1024)
    expected = newest(original)

    def copy(name: str) -> Path:
        import shutil

        shutil.copytree(original, tmp_path / name / "data")
        return tmp_path / name / "data"

    counted = copy("counted")
    config = {"segment.bytes": 2048}
    operations = count_operations(lambda: compacted(counted, config=config))
    for operation in range(0, operations, max(1, operations // 24)):
        data = copy(f"run{operation}")
        assert kill_at(operation, lambda data=data: compacted(data, config=config))  # type: ignore[misc]
        compacted(data, config=config)
        found = rows(data)
        assert (dict(found), len(found)) == (expected, len(expected)), operation
        assert verify(str(data)).findings == [], operation


keys = st.sampled_from([b"a", b"b", b"c", b"d"])
batches = st.builds(
    lambda pairs, codec, producer: Batch(
        tuple(value for _, value in pairs), keys=tuple(key for key, _ in pairs), codec=codec, producer=producer
    ),
    st.lists(st.tuples(keys, st.sampled_from([b"v", b"w" * 30, None])), min_size=1, max_size=4),
    st.sampled_from([Codec.NONE, Codec.ZSTD]),
    st.sampled_from([None, None, 7, 8]),
)
ends = st.builds(End, st.sampled_from([7, 8]), st.booleans())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.one_of(batches, batches, ends), max_size=20), segment_bytes=st.sampled_from([200, 500, 4000]))
def test_any_log_keeps_what_committed_readers_would_have_as_newest(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], segment_bytes: int
) -> None:
    data = tmp_path_factory.mktemp("any") / "data"
    opened: set[int] = set()
    legal: list[Step] = []
    for step in steps:
        if isinstance(step, End) and step.producer not in opened:
            continue
        if isinstance(step, Batch) and step.producer is not None:
            opened.add(step.producer)
        if isinstance(step, End):
            opened.discard(step.producer)
        legal.append(step)
    legal += [End(producer, True) for producer in sorted(opened)]
    write_log(data, "t", 0, legal, segment_bytes=segment_bytes)
    expected = newest(data)
    compacted(data, config={"segment.bytes": segment_bytes})
    found = rows(data)
    assert (dict(found), len(found)) == (expected, len(expected))
    assert verify(str(data)).findings == []
