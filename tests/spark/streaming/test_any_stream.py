"""For any log, any options and any moment of a restart: the rows of all micro batches together are those of a plain scan, each once.

The reader is driven as Spark drives it, without a JVM: offsets cross as JSON, tasks as pickles. In the middle the query is stopped and
goes on from its checkpoint with a new reader, while the log has grown, perhaps by a partition; a batch that was planned and perhaps not
finished is read again, as after a crash, and must give the same rows.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milepost
from milepost.client.cluster import Cluster
from milepost.protocol.messages import CreatePartitionsRequest
from milepost.spark.options import SourceOptions
from milepost.spark.stream_reader import MilepostStreamReader
from tests.spark.logs import NOW, Row, Scan, Step, plain_scan, steps, write_log
from tests.spark.rows import ALL, plain, to_rows

MOST_TRIGGERS = 2000


class Query:
    """From a checkpoint on, or from where the options say."""

    def __init__(self, options: dict[str, Any], checkpoint: str | None = None, *, available_now: bool = False):
        parsed = SourceOptions.parse({name: str(value) for name, value in options.items()}, streaming=True)
        self.reader = MilepostStreamReader(parsed, ALL)
        self.position = self.reader.initialOffset() if checkpoint is None else json.loads(checkpoint)
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def trigger(self) -> tuple[str, str] | None:
        """Start and end of the next micro batch, as its checkpoint has them; None when there is nothing to read."""
        start = json.dumps(self.position)
        end = json.dumps(self.reader.latestOffset(json.loads(start), self.reader.getDefaultReadLimit()))
        if json.loads(end) == json.loads(start):
            return None
        self.position = json.loads(end)
        return start, end

    def rows(self, start: str, end: str) -> list[Row]:
        """Row by row at once: the buffers behind an Arrow batch are used again for the next one."""
        found = []
        for part in self.reader.partitions(json.loads(start), json.loads(end)):
            task = pickle.loads(pickle.dumps(self.reader))
            found += [plain(row) for batch in task.read(pickle.loads(pickle.dumps(part))) for row in to_rows(batch)]
        return found


@dataclass(frozen=True)
class History:
    """What partition 0 and partition 1 hold before the restart, and what comes to them meanwhile; None: it is not there yet."""

    before: tuple[list[Step], list[Step] | None]
    meanwhile: tuple[list[Step], list[Step]]
    triggers: int
    """So many are done before the restart."""
    is_committed: bool
    """Whether the last of them was."""
    available_now: bool
    options: dict[str, Any]
    start: dict[str, Any]


@st.composite
def histories(draw: st.DrawFn) -> History:
    options: dict[str, Any] = {}
    for name, values in (
        ("kafka.isolation.level", ["read_committed", "read_uncommitted"]),
        ("maxOffsetsPerTrigger", [7, 20, 60]),
        ("maxBytesPerTrigger", [200, 1000, "4k"]),
        ("minPartitions", [1, 3, 20]),
        ("maxRecordsPerPartition", [1, 5, 1000]),
        ("maxBytesPerPartition", [1, 200, "1m"]),
    ):
        value = draw(st.sampled_from([None, *values]))
        if value is not None:
            options[name] = value
    if draw(st.booleans()):
        options |= {"minOffsetsPerTrigger": 1, "maxTriggerDelay": draw(st.sampled_from(["0ms", "1h"]))}
    kind = draw(st.sampled_from(["earliest", "earliest", "latest", "offsets", "timestamp", "timestamps", "last"]))
    number = draw(st.integers(0, 45))
    first, second = draw(steps()), draw(st.one_of(st.none(), steps()))
    cut = draw(st.integers(0, len(first)))
    return History(
        (first[:cut], second),
        (first[cut:], draw(steps()) if draw(st.booleans()) else []),
        draw(st.integers(0, 6)),
        draw(st.booleans()),
        draw(st.booleans()),
        options,
        {kind: number},
    )


@contextmanager
def opened(transport: str, data: Path) -> Iterator[dict[str, Any]]:
    if transport == "path":
        yield {"path": data}
        return
    with milepost.Broker(data) as running:
        yield {"kafka.bootstrap.servers": running.bootstrap_servers}


def add_partition(servers: str) -> None:
    """A broker takes no directory that it has not been asked for."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name="t", count=2, assignments=None)], timeout_ms=30_000
    )
    with Cluster(servers) as cluster:
        assert [each.error_code for each in cluster.on_controller(lambda connection: connection.ask(request)).results] == [0]


def scans(data: Path) -> list[Scan]:
    return [plain_scan(data / f"t-{number}") for number in (0, 1) if (data / f"t-{number}").exists()]


def starting(history: History, found: list[Scan]) -> tuple[dict[str, Any], list[int]]:
    """The options that say where to start, and which offsets that is."""
    committed = history.options.get("kafka.isolation.level") == "read_committed"
    latest = [scan.last_stable if committed else scan.end for scan in found]
    ((kind, number),) = history.start.items()
    if kind == "earliest":
        return {"startingOffsets": "earliest"}, [0] * len(found)
    if kind == "latest":
        return {"startingOffsets": "latest"}, latest
    if kind == "last":
        return {"startingOffsets": f"last {number}"}, [max(0, end - number) for end in latest]
    if kind == "offsets":
        starts = [min(number, end) for end in latest]
        return {"startingOffsets": json.dumps({"t": {str(at): start for at, start in enumerate(starts)}})}, starts
    named = {str(at): NOW + number for at in range(len(found))}
    by_time = {
        "timestamp": ("startingTimestamp", NOW + number),
        "timestamps": ("startingOffsetsByTimestamp", json.dumps({"t": named})),
    }
    starts = []
    for scan, end in zip(found, latest, strict=True):
        offset = next((offset for offset, timestamp in scan.times if timestamp >= NOW + number), None)
        starts.append(end if offset is None or offset >= end else offset)
    return dict([by_time[kind], ("startingOffsetsByTimestampStrategy", "latest")]), starts


def run(transport: str, history: History, segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        data = Path(root)

        def write(partition: int, log: list[Step] | None) -> None:
            if log is not None:
                write_log(data, "t", partition, log, segment_bytes=segment_bytes, interval=100)

        for partition in (0, 1):
            write(partition, history.before[partition])
        options, starts = starting(history, scans(data))
        given = {"subscribe": "t", **history.options, **options}
        with opened(transport, data) as place:
            query = Query({**place, **given}, available_now=history.available_now)
            rows, checkpoint, replayed = run_until_restart(query, history)
            query.reader.stop()
            if transport == "wire" and history.before[1] is None:
                add_partition(place["kafka.bootstrap.servers"])
        for partition in (0, 1):
            write(partition, history.meanwhile[partition])
        with opened(transport, data) as place:
            query = Query({**place, **given}, checkpoint, available_now=history.available_now)
            if replayed is not None:
                assert by_offset(query.rows(replayed[0], replayed[1])) == replayed[2]
            rows += drained(query, history)
            query.reader.stop()
        found = scans(data)
        committed = history.options.get("kafka.isolation.level") == "read_committed"
        # A partition that came later is read from its first offset.
        wanted = [
            row
            for scan, start in zip(found, [*starts, 0, 0], strict=False)
            for row in (scan.committed if committed else scan.rows)
            if row["offset"] >= start
        ]
        assert by_offset(rows) == wanted


def run_until_restart(query: Query, history: History) -> tuple[list[Row], str, tuple[str, str, list[Row]] | None]:
    """The rows so far, the checkpoint, and the last batch if it was planned and is not known to be finished."""
    rows: list[Row] = []
    checkpoint, last = json.dumps(query.position), None
    for number in range(history.triggers):
        planned = query.trigger()
        if planned is None:
            break
        of_batch = within_limit(query, planned, history)
        rows += of_batch
        checkpoint = planned[1]
        is_last = number == history.triggers - 1
        if is_last and not history.is_committed:
            last = (*planned, by_offset(of_batch))
        else:
            query.reader.commit(json.loads(planned[1]))
    return rows, checkpoint, last


def drained(query: Query, history: History) -> list[Row]:
    rows: list[Row] = []
    for _ in range(MOST_TRIGGERS):
        planned = query.trigger()
        if planned is None:
            return rows
        rows += within_limit(query, planned, history)
        query.reader.commit(json.loads(planned[1]))
    raise AssertionError(f"after {MOST_TRIGGERS} triggers there is no end")


def within_limit(query: Query, planned: tuple[str, str], history: History) -> list[Row]:
    start, end = (json.loads(each)["t"] for each in planned)
    limit = history.options.get("maxOffsetsPerTrigger")
    offsets = sum(end[partition] - start.get(partition, 0) for partition in end)
    # No partition is starved, however small its share: each that waits gets one offset.
    assert limit is None or 0 < offsets < limit + len(end)
    return query.rows(*planned)


def by_offset(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@settings(max_examples=60)
@given(histories(), st.sampled_from([1 << 20, 900]))
def test_rows_over_files(history: History, segment_bytes: int) -> None:
    run("path", history, segment_bytes)


@settings(max_examples=20)
@given(histories(), st.sampled_from([1 << 20, 900]))
def test_rows_from_a_broker(history: History, segment_bytes: int) -> None:
    run("wire", history, segment_bytes)


@pytest.mark.trouble
@pytest.mark.parametrize("transport", ["path", "wire"])
@settings(max_examples=400)
@given(history=histories(), segment_bytes=st.sampled_from([1 << 20, 2000, 900]))
def test_rows_at_length(transport: str, history: History, segment_bytes: int) -> None:
    run(transport, history, segment_bytes)
