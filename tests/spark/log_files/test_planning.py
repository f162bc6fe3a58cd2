"""Plans: equal bytes, cut at batches; few bytes for a slice; what a stream needs to know about sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.spark.bounds import batch_ranges
from milepost.spark.log_files.planning import share_of
from milepost.spark.log_files.split import FileSplit
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.offset_range import OffsetRange
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition
from tests.spark.logs import NOW, Batch, many_batches, write_log
from tests.spark.rows import read_tasks

T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One partition of 1,800 records in segments of 20,000 bytes, one of 90 records."""
    root = tmp_path_factory.mktemp("data")
    write_log(root, steps=list(many_batches(600)), segment_bytes=20_000, interval=500)
    write_log(root, partition=1, steps=list(many_batches(30)), segment_bytes=20_000, interval=500)
    return root


def plan(data: Path, **options: object) -> list[FileSplit]:
    parsed = SourceOptions.parse(
        {"path": str(data), "subscribe": "t", **{k: str(v) for k, v in options.items()}}, streaming=False
    )
    transport = LogFilesTransport(parsed)
    splits = transport.plan(batch_ranges(parsed, transport, NOW))
    assert all(isinstance(split, FileSplit) for split in splits)
    return [split for split in splits if isinstance(split, FileSplit)]


def offsets_of(splits: list[FileSplit]) -> list[tuple[int, int, int]]:
    found = sorted((each.partition.partition, each.start, each.end) for split in splits for each in split.ranges)
    merged: list[tuple[int, int, int]] = []
    for partition, start, end in found:
        if merged and merged[-1][0] == partition and merged[-1][2] == start:
            merged[-1] = (partition, merged[-1][1], end)
        else:
            merged.append((partition, start, end))
    return merged


def test_small_log_is_one_task(data: Path) -> None:
    assert len(plan(data)) == 1


@pytest.mark.parametrize("share", [700, 5_000, 19_000, 50_000])
def test_tasks_have_about_equal_bytes_and_all_offsets_once(data: Path, share: int) -> None:
    splits = plan(data, maxBytesPerPartition=share)
    assert offsets_of(splits) == [(0, 0, 1800), (1, 0, 90)]
    # A cut is made at an index entry, and those are up to an interval and a batch apart.
    assert max(split.size for split in splits) <= share + 1_000
    total = sum(split.size for split in splits)
    assert len(splits) <= 2 * total / share + 2


def test_hint_of_tasks_divides_and_keeps_all_offsets(data: Path) -> None:
    splits = plan(data, minPartitions=8)
    assert 8 <= len(splits) <= 24
    assert offsets_of(splits) == [(0, 0, 1800), (1, 0, 90)]


@pytest.mark.parametrize("least", range(2, 25))
def test_hint_of_tasks_is_met_where_the_index_allows_it(data: Path, least: int) -> None:
    splits = plan(data, minPartitions=least)
    assert least <= len(splits) <= 2 * least
    assert offsets_of(splits) == [(0, 0, 1800), (1, 0, 90)]


def test_most_records_per_task_are_kept_to_the_offset(data: Path) -> None:
    splits = plan(data, maxRecordsPerPartition=100)
    assert all(sum(each.size for each in split.ranges) <= 100 for split in splits)
    assert offsets_of(splits) == [(0, 0, 1800), (1, 0, 90)]


@pytest.mark.parametrize(("least", "tasks"), [(1, 1), (2, 2), (7, 7), (25, 25), (40, 25)])
def test_hint_of_tasks_holds_for_a_log_without_an_index_entry_too(tmp_path: Path, least: int, tasks: int) -> None:
    write_log(tmp_path, steps=[Batch(tuple(b"v%d" % number for number in range(10)))] * 2)
    write_log(tmp_path, partition=1, steps=[Batch((b"a", b"b", b"c", b"d", b"e"))])
    splits = plan(tmp_path, minPartitions=least)
    assert len(splits) == tasks
    assert offsets_of(splits) == [(0, 0, 20), (1, 0, 5)]
    values = sorted(row["value"] for task in read_tasks({"path": tmp_path, "minPartitions": least}) for row in task)
    assert values == sorted([b"v%d" % number for number in range(10)] * 2 + [b"a", b"b", b"c", b"d", b"e"])


def test_share_is_two_tasks_a_core_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert share_of(1 << 20, None, None) == 8 << 20
    assert share_of(800 << 20, None, None) == 100 << 20
    assert share_of(100 << 30, None, None) == 128 << 20
    assert share_of(800 << 20, 10 << 20, None) == 10 << 20
    assert share_of(800 << 20, None, 100) == 8 << 20


def test_slice_of_offsets_or_times_reads_little_more_than_its_bytes(data: Path) -> None:
    whole = sum(split.size for split in plan(data))
    by_offset = plan(
        data, startingOffsets=json.dumps({"t": {"0": 900, "1": 0}}), endingOffsets=json.dumps({"t": {"0": 990, "1": 0}})
    )
    by_time = plan(data, startingTimestamp=NOW + 900, endingTimestamp=NOW + 990, startingOffsetsByTimestampStrategy="latest")
    exact = whole * 90 / 1890
    for splits in (by_offset, by_time):
        assert offsets_of(splits) == [(0, 900, 990)]
        # Two index steps at most, one at each end.
        assert sum(split.size for split in splits) <= exact + 2 * 1_000


def test_sizes_and_limits_for_streams(data: Path) -> None:
    parsed = SourceOptions.parse({"path": str(data), "subscribe": "t"}, streaming=True)
    transport = LogFilesTransport(parsed)
    ranges = [OffsetRange(T0, 0, 1800), OffsetRange(TopicPartition("t", 1), 0, 90)]
    total = transport.bytes_between(ranges)
    assert total == sum(path.stat().st_size for path in data.rglob("*.log"))
    ends = transport.limit_bytes(ranges, total // 10)
    taken = transport.bytes_between([OffsetRange(each.partition, each.start, ends[each.partition]) for each in ranges])
    assert 0.07 * total <= taken <= 0.13 * total
    assert transport.limit_bytes(ranges, total + 1) == {T0: 1800, TopicPartition("t", 1): 90}
    start = 0
    steps = 0
    while start < 1800:
        (end,) = transport.limit_bytes([OffsetRange(T0, start, 1800)], 1).values()
        assert start < end
        start, steps = end, steps + 1
    assert steps > 20


def test_stream_driver_sees_what_is_appended_and_rolled(tmp_path: Path) -> None:
    parsed = SourceOptions.parse(
        {"path": str(tmp_path), "subscribe": "t", "kafka.isolation.level": "read_committed"}, streaming=True
    )
    batches = list(many_batches(40))
    write_log(tmp_path, steps=batches[:5], segment_bytes=1000)
    transport = LogFilesTransport(parsed)
    assert transport.latest([T0]) == {T0: 15}
    assert transport.latest([T0]) == {T0: 15}
    for path in (tmp_path / "t-0").iterdir():
        path.unlink()
    write_log(tmp_path, steps=batches, segment_bytes=1000)
    assert transport.latest([T0]) == {T0: 120}
    write_log(tmp_path, partition=1, steps=batches[:1])
    assert [str(each) for each in transport.partitions(parsed.subscription)] == ["t-0", "t-1"]
