"""Filters that Spark pushes down: what they leave out, and that they leave out no row that passes."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from milepost.spark.offset_range import OffsetRange
from milepost.spark.options import SourceOptions
from milepost.spark.pushdown import Pruning, pruning_of
from milepost.spark.pushdown_reader import PushdownReader
from milepost.topic_partition import TopicPartition
from tests.spark.logs import NOW, Batch, Step, many_batches, plain_scan, steps, write_log
from tests.spark.rows import ALL, plain, to_rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(ms: float) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("filters", "pruning"),
    [
        ([], Pruning()),
        ([EqualTo(("topic",), "t"), In(("topic",), ("t", "u"))], Pruning(topics=frozenset(["t"]))),
        ([In(("partition",), (1, 2)), EqualTo(("partition",), 2)], Pruning(partitions=frozenset([2]))),
        ([GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 9)], Pruning(start=5, end=9)),
        ([GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 9)], Pruning(start=6, end=10)),
        ([In(("offset",), (7, 3, 5))], Pruning(start=3, end=8)),
        ([GreaterThanOrEqual(("timestamp",), at(5)), LessThan(("timestamp",), at(9))], Pruning(time=5, end_time=9)),
        ([GreaterThan(("timestamp",), at(5)), LessThanOrEqual(("timestamp",), at(9))], Pruning(time=6, end_time=10)),
        ([GreaterThanOrEqual(("timestamp",), at(5.5)), LessThan(("timestamp",), at(9.5))], Pruning(time=6, end_time=10)),
        ([GreaterThan(("timestamp",), at(5.5)), LessThanOrEqual(("timestamp",), at(9.5))], Pruning(time=6, end_time=10)),
        ([Not(EqualTo(("offset",), 3)), IsNotNull(("offset",)), EqualTo(("key",), b"k"), EqualTo(("offset",), None)], Pruning()),
    ],
)
def test_filters_say_what_may_be_left_out(filters: list[Filter], pruning: Pruning) -> None:
    assert pruning_of(filters) == pruning


def test_ranges_are_cut_to_what_may_pass() -> None:
    whole = OffsetRange(TopicPartition("t", 0), 10, 20)
    assert Pruning(start=15, end=99).within(whole) == OffsetRange(whole.partition, 15, 20)
    assert Pruning(start=30).within(whole).size == 0
    assert Pruning(end=5).within(whole).size == 0
    assert not Pruning(partitions=frozenset([1])).wants(whole)


def reader_of(root: Path, filters: list[Filter], **more: str) -> PushdownReader:
    options = SourceOptions.parse({"path": str(root), "subscribe": "t", "pushdown": "true", **more}, streaming=False)
    reader = PushdownReader(options, ALL)
    assert list(reader.pushFilters(filters)) == filters
    return reader


def rows_of(reader: PushdownReader) -> list[dict[str, Any]]:
    return [plain(row) for part in reader.partitions() for batch in reader.read(part) for row in to_rows(batch)]


@settings(max_examples=60)
@given(steps(), st.integers(0, 45), st.integers(0, 45), st.integers(0, 60), st.integers(0, 60))
def test_no_row_that_passes_is_left_out(log: list[Step], time: int, end_time: int, start: int, end: int) -> None:
    filters: list[Filter] = [
        GreaterThanOrEqual(("timestamp",), at(NOW + time)),
        LessThan(("timestamp",), at(NOW + end_time)),
        GreaterThanOrEqual(("offset",), start),
        LessThan(("offset",), end),
    ]
    with tempfile.TemporaryDirectory() as root:
        directory = write_log(Path(root), steps=log, segment_bytes=900, interval=50)
        found = {row["offset"] for row in rows_of(reader_of(Path(root), filters))}
        for row in plain_scan(directory).rows:
            moment = row["timestamp"]
            if moment is not None and NOW + time <= moment < NOW + end_time and start <= row["offset"] < end:
                assert row["offset"] in found


def test_upper_bound_of_time_ends_the_read_only_when_order_is_promised(tmp_path: Path) -> None:
    write_log(tmp_path, steps=list(many_batches(20)), segment_bytes=1000, interval=0)
    filters: list[Filter] = [LessThan(("timestamp",), at(NOW + 9))]
    assert len(rows_of(reader_of(tmp_path, filters))) == 60
    assert [row["offset"] for row in rows_of(reader_of(tmp_path, filters, timestampsOrdered="true"))] == list(range(9))


def test_lower_bound_of_time_starts_the_read_even_when_times_are_not_ordered(tmp_path: Path) -> None:
    write_log(tmp_path, steps=[Batch((b"a",), (5,)), Batch((b"b",), (50,)), Batch((b"c",), (7,))], interval=0)
    filters: list[Filter] = [GreaterThan(("timestamp",), at(NOW + 6))]
    assert [row["value"] for row in rows_of(reader_of(tmp_path, filters))] == [b"b", b"c"]
