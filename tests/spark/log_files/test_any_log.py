"""For any log and any options, the rows are those that a plain scan of the files finds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.errors import InvalidArgument, OffsetOutOfRange
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition
from tests.spark.logs import NOW, Row, Scan, Step, plain_scan, steps, write_log
from tests.spark.rows import read_rows, read_tasks


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Any]:
    """Options that say where to start and where to end."""
    found: dict[str, Any] = {}
    start = draw(st.sampled_from(["none", "earliest", "offsets", "timestamp", "timestamps", "last"]))
    if start == "earliest":
        found["startingOffsets"] = "earliest"
    elif start == "offsets":
        found["startingOffsets"] = draw(st.one_of(st.just(-2), st.integers(0, 80)))
    elif start == "timestamp":
        found["startingTimestamp"] = NOW + draw(st.integers(-5, 45))
    elif start == "timestamps":
        found["startingOffsetsByTimestamp"] = NOW + draw(st.integers(-5, 45))
    elif start == "last":
        found["startingOffsets"] = f"last {draw(st.integers(0, 50))}"
    end = draw(st.sampled_from(["none", "latest", "offsets", "timestamp", "timestamps"]))
    if end == "latest":
        found["endingOffsets"] = "latest"
    elif end == "offsets":
        found["endingOffsets"] = draw(st.one_of(st.just(-1), st.integers(0, 120)))
    elif end == "timestamp":
        found["endingTimestamp"] = NOW + draw(st.integers(-5, 45))
    elif end == "timestamps":
        found["endingOffsetsByTimestamp"] = NOW + draw(st.integers(-5, 45))
    for name, values in (
        ("startingOffsetsByTimestampStrategy", ["error", "latest"]),
        ("failOnDataLoss", ["true", "false"]),
        ("kafka.isolation.level", ["read_committed", "read_uncommitted"]),
        ("minPartitions", [1, 3, 20]),
        ("maxRecordsPerPartition", [1, 5, 1000]),
        ("maxBytesPerPartition", [1, 200, "1m"]),
    ):
        value = draw(st.sampled_from([None, *values]))
        if value is not None:
            found[name] = value
    return found


def expected(scan: Scan, options: dict[str, Any]) -> list[Row] | type[Exception]:
    """The rules once more, over a list."""
    committed = options.get("kafka.isolation.level") == "read_committed"
    rows = scan.committed if committed else scan.rows
    latest = scan.last_stable if committed else scan.end

    def at(time: int) -> int | None:
        offset = next((offset for offset, timestamp in scan.times if timestamp >= time), None)
        return offset if offset is not None and offset < latest else None

    start, end = 0, latest
    if (time := options.get("startingTimestamp", options.get("startingOffsetsByTimestamp"))) is not None:
        found = at(time)
        if found is None and options.get("startingOffsetsByTimestampStrategy", "error") == "error":
            return InvalidArgument
        start = latest if found is None else found
    elif isinstance(given := options.get("startingOffsets"), int):
        start = 0 if given == -2 else given
    elif isinstance(given, str) and given.startswith("last"):
        start = max(0, latest - int(given.split()[1]))
    if (time := options.get("endingTimestamp", options.get("endingOffsetsByTimestamp"))) is not None:
        found = at(time)
        end = latest if found is None else found
    elif isinstance(given := options.get("endingOffsets"), int):
        end = latest if given == -1 else given
    if start > end:
        return InvalidArgument
    if start < end and end > latest and options.get("failOnDataLoss", "true") == "true":
        return OffsetOutOfRange
    return [row for row in rows if start <= row["offset"] < end]


def as_options(data: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Numbers where the source takes JSON by partition become that."""
    by_partition = ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
    given = {
        name: json.dumps({"t": {"0": value}}) if name in by_partition and isinstance(value, int) else value
        for name, value in options.items()
    }
    return {"path": data, "subscribe": "t", **given}


@settings(max_examples=150)
@given(steps(), bounds(), st.sampled_from([1 << 20, 2000, 900]), st.sampled_from([0, 100, 4096]))
def test_rows_are_those_of_a_plain_scan(log: list[Step], options: dict[str, Any], segment_bytes: int, interval: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        directory = write_log(Path(root), steps=log, segment_bytes=segment_bytes, interval=interval)
        answer = expected(plain_scan(directory), options)
        if isinstance(answer, type):
            with pytest.raises(answer):
                read_rows(as_options(Path(root), options))
        else:
            assert read_rows(as_options(Path(root), options)) == answer


@settings(max_examples=60)
@given(steps(), st.integers(1, 12), st.sampled_from([2000, 900]))
def test_no_task_has_more_offsets_than_allowed(log: list[Step], limit: int, segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        write_log(Path(root), steps=log, segment_bytes=segment_bytes, interval=50)
        for task in read_tasks({"path": root, "subscribe": "t", "maxRecordsPerPartition": limit}):
            offsets = [row["offset"] for row in task]
            assert not offsets or max(offsets) - min(offsets) < limit


@settings(max_examples=60)
@given(steps(), st.integers(0, 45), st.sampled_from([1 << 20, 900]))
def test_offset_for_a_time_is_the_first_record_not_older(log: list[Step], time: int, segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        directory = write_log(Path(root), steps=log, segment_bytes=segment_bytes, interval=50)
        times = plain_scan(directory).times
        options = SourceOptions.parse({"path": root, "subscribe": "t"}, streaming=False)
        found = LogFilesTransport(options).offsets_for_times({TopicPartition("t", 0): NOW + time})
        assert found == {TopicPartition("t", 0): next((offset for offset, timestamp in times if timestamp >= NOW + time), None)}
