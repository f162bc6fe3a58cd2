"""A sink over files, killed (-9) before any of its disk operations: all of a write is seen or nothing, and once after it was run again.

No JVM: the writers get their tasks and messages here as Spark would hand them over, and a run takes place in a child process.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import milepost
from milepost.inspect.verify.verify import verify
from milepost.record.partitioner import partition_for
from milepost.spark.sink import batch_writer, commit, stream_writer
from milepost.spark.sink.batch_writer import MilepostWriter
from milepost.spark.sink.commit import Commit
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.stream_writer import MilepostStreamWriter
from milepost.spark.sink.wire import produce
from tests.spark.jobs.in_process import count_operations, here, kill_at
from tests.spark.rows import read_rows

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here", "context")

PARTITIONS = 3
SMALL = {"topic": "t", "partitions": str(PARTITIONS), "segmentBytes": "700", "kafka.batch.size": "150"}


class Context:
    """Spark's, as a task sees it. A driver that was restarted counts its attempts from 0 again."""

    def __init__(self) -> None:
        self.task = 0
        self.batch = 0

    def partitionId(self) -> int:
        return self.task

    def taskAttemptId(self) -> int:
        return self.task

    def getLocalProperty(self, name: str) -> str:
        return {stream_writer.QUERY_ID: "query", stream_writer.BATCH_ID: str(self.batch)}[name]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    made = Context()

    class TaskContext:
        @staticmethod
        def get() -> Context:
            return made

    for module in (batch_writer, stream_writer):
        monkeypatch.setattr(module, "TaskContext", TaskContext)
    yield made


def options(data: Path, **more: str) -> SinkOptions:
    return SinkOptions.parse({"path": str(data), **SMALL, **more})


def tasks(ids: range) -> list[list[pa.RecordBatch]]:
    """Two tasks, with every other id each."""
    texts = [[str(number) for number in ids[first::2]] for first in (0, 1)]
    return [[pa.RecordBatch.from_pydict({"key": each, "value": each})] for each in texts]


def batch_write(context: Context, data: Path, ids: range, **more: str) -> None:
    """As `df.write`: planned, written by tasks, committed by the driver, each with a writer that was pickled."""
    planned = pickle.dumps(MilepostWriter(options(data, **more)))
    messages = []
    for context.task, rows in enumerate(tasks(ids)):
        messages.append(pickle.dumps(pickle.loads(planned).write(iter(rows))))
    pickle.loads(planned).commit([pickle.loads(message) for message in messages])


def stream_write(context: Context, data: Path, ids: range, batch: int) -> None:
    context.batch = batch
    messages = []
    for context.task, rows in enumerate(tasks(ids)):
        messages.append(pickle.dumps(MilepostStreamWriter(options(data)).write(iter(rows))))
    MilepostStreamWriter(options(data)).commit([pickle.loads(message) for message in messages], batch)


def seen(data: Path) -> Counter[int]:
    """The ids that a reader gets; each of them where its key belongs."""
    if not any(data.glob("t-*")):
        return Counter()
    rows = read_rows({"path": data, "subscribe": "t"})
    assert all(row["partition"] == partition_for(row["key"], PARTITIONS) for row in rows)
    return Counter(int(row["value"]) for row in rows)


def places(count: int, every: int) -> range:
    return range(0, count, max(1, count // every))


FIRST, SECOND, THIRD = range(40), range(100, 140), range(200, 240)
EVERY = [pytest.param(10, id="some"), pytest.param(10**6, id="all", marks=pytest.mark.trouble)]


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("is_new", [True, False], ids=["new-topic", "old-topic"])
def test_batch_write_with_an_id_is_there_once(context: Context, tmp_path: Path, every: int, is_new: bool) -> None:
    def run(data: Path) -> None:
        batch_write(context, data, SECOND, commitId="mine:0")

    def start(name: str) -> Path:
        data = tmp_path / name / "data"
        data.parent.mkdir()
        if not is_new:
            batch_write(context, data, FIRST)
        return data

    before = Counter() if is_new else Counter(FIRST)
    counted = start("counted")
    for operation in places(count_operations(lambda: run(counted)), every):
        data = start(f"run{operation}")
        assert kill_at(operation, lambda data=data: run(data))  # type: ignore[misc]
        assert seen(data) in (before, before + Counter(SECOND)), operation
        run(data)
        assert seen(data) == before + Counter(SECOND), operation
        batch_write(context, data, THIRD, commitId="other:0")
        assert seen(data) == before + Counter(SECOND) + Counter(THIRD), operation
        assert verify(str(data)).findings == []
        assert unfinished(data) == []


@pytest.mark.parametrize("every", EVERY)
def test_batch_write_without_an_id_is_there_or_not_and_others_do_not_bring_parts_of_it(
    context: Context, tmp_path: Path, every: int
) -> None:
    def run(data: Path) -> None:
        batch_write(context, data, SECOND)

    (tmp_path / "counted").mkdir()
    batch_write(context, tmp_path / "counted" / "data", FIRST)
    for operation in places(count_operations(lambda: run(tmp_path / "counted" / "data")), every):
        data = tmp_path / f"run{operation}" / "data"
        data.parent.mkdir()
        batch_write(context, data, FIRST)
        assert kill_at(operation, lambda data=data: run(data))  # type: ignore[misc]
        found = seen(data)
        assert found in (Counter(FIRST), Counter(FIRST) + Counter(SECOND)), operation
        stream_write(context, data, THIRD, 0)
        assert seen(data) == found + Counter(THIRD), operation
        assert unfinished(data) == []


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("foreign", [False, True], ids=["alone", "another-writes-between"])
def test_batch_of_a_stream_is_there_once(context: Context, tmp_path: Path, every: int, foreign: bool) -> None:
    def run(data: Path) -> None:
        stream_write(context, data, FIRST, 0)
        stream_write(context, data, SECOND, 1)

    (tmp_path / "counted").mkdir()
    for operation in places(count_operations(lambda: run(tmp_path / "counted" / "data")), every):
        data = tmp_path / f"run{operation}" / "data"
        data.parent.mkdir()
        assert kill_at(operation, lambda data=data: run(data))  # type: ignore[misc]
        assert seen(data) in (Counter(), Counter(FIRST), Counter(FIRST) + Counter(SECOND)), operation
        between = Counter(THIRD) if foreign else Counter()
        if foreign:
            batch_write(context, data, THIRD)
        # Spark runs the batch again that has no entry in its commit log, which may be one that is written.
        run(data)
        assert seen(data) == Counter(FIRST) + Counter(SECOND) + between, operation
        assert verify(str(data)).findings == []
        assert unfinished(data) == []


def unfinished(data: Path) -> list[Path]:
    return list((data.parent / ".data.staging").glob("*/commit.json"))


# Not killed, but failed: Spark then calls `abort`.


def fail_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    calls, real = [0], commit.append

    def append(log: Any, batch: bytearray) -> None:
        calls[0] += 1
        if calls[0] == call:
            raise OSError(28, "No space left on device")
        real(log, batch)

    monkeypatch.setattr(commit, "append", append)


@pytest.mark.parametrize("call", [1, 2, 7])
def test_commit_that_failed_and_was_aborted_leaves_nothing_for_the_next_one_to_bring(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    data = tmp_path / "data"
    batch_write(context, data, FIRST)
    writer = MilepostWriter(options(data))
    messages: list[Any] = []
    for context.task, rows in enumerate(tasks(SECOND)):
        messages.append(writer.write(iter(rows)))
    with monkeypatch.context() as patched:
        fail_at(patched, call)
        with pytest.raises(OSError, match="No space"):
            writer.commit(messages)
    writer.abort(messages)
    assert seen(data) == Counter(FIRST)
    batch_write(context, data, THIRD)
    assert seen(data) == Counter(FIRST) + Counter(THIRD)


def test_write_of_which_a_task_failed_leaves_nothing(context: Context, tmp_path: Path) -> None:
    data = tmp_path / "data"
    writer = MilepostWriter(options(data))
    writer.abort([writer.write(iter(tasks(FIRST)[0])), None])
    assert list((tmp_path / ".data.staging").iterdir()) == []
    batch_write(context, data, SECOND)
    assert seen(data) == Counter(SECOND)


def test_what_was_cut_off_once_takes_nothing_with_it_that_came_later(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write dies in its commit; a stream's batch follows and dies when it is named and not shown yet: it is shown, not cut."""
    data = tmp_path / "data"
    batch_write(context, data, FIRST)
    appending = operation_of(monkeypatch, commit, "append", lambda: batch_write(context, data, SECOND))
    assert appending
    noting = operation_of(monkeypatch, Commit, "_note", lambda: stream_write(context, data, THIRD, 0), after=True)
    assert noting
    assert json.loads((data / "milepost.sink.json").read_text())["queries"] == {"query": 0}
    assert seen(data) == Counter(FIRST)
    stream_write(context, data, THIRD, 0)
    assert seen(data) == Counter(FIRST) + Counter(THIRD)


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
def test_broker_that_was_started_over_an_interrupted_write_shows_its_part_and_the_rest_follows(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    data = tmp_path / "data"
    batch_write(context, data, FIRST)
    assert operation_of(monkeypatch, commit, "append", lambda: batch_write(context, data, SECOND, commitId="mine:0"))
    others: Counter[int] = Counter()
    with milepost.Broker(data) as running:
        shown = read_rows({"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t"})
        assert len(FIRST) < len(shown) < len(FIRST) + len(SECOND)
        if writes:
            chosen = SinkOptions.parse({"kafka.bootstrap.servers": running.bootstrap_servers, "topic": "t"})
            assert produce(tasks(THIRD)[0], chosen, 0) == 20
            others = Counter(THIRD[::2])
    batch_write(context, data, SECOND, commitId="mine:0")
    assert seen(data) == Counter(FIRST) + Counter(SECOND) + others
    assert unfinished(data) == []


class Stopped(BaseException):
    pass


def operation_of(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, work: Callable[[], None], *, after: bool = False
) -> bool:
    """Run until the second call of a function (or the end of its first), and no further; the directory's logs are closed as they are."""
    calls, real = [0], getattr(owner, name)

    def stop(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise Stopped
        found = real(*arguments)
        if after:
            raise Stopped
        return found

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stop)
        try:
            work()
        except Stopped:
            return True
    return False
