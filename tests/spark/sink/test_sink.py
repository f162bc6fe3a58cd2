"""What a sink writes, below Spark: rules about columns, partitions as Java's, batches that every reader takes, commits that happen once."""

from __future__ import annotations

import json
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import milepost
from milepost.client.connection import Connection
from milepost.errors import BrokerUnavailable, DirectoryLocked, InvalidArgument, KafkaStorage
from milepost.files import Disk, HandlePool
from milepost.protocol.messages import ProduceResponse
from milepost.record.batches import iter_batches
from milepost.record.partitioner import partition_for
from milepost.spark.sink.batch_writer import MilepostWriter
from milepost.spark.sink.commit import Commit
from milepost.spark.sink.messages import Written
from milepost.spark.sink.options import KNOWN, SinkOptions
from milepost.spark.sink.rows import check_columns
from milepost.spark.sink.staging import StagedFile, make_staging, sweep
from milepost.spark.sink.task import stage
from milepost.spark.sink.wire import produce
from milepost.topic_partition import TopicPartition
from tests.spark.rows import read_rows

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(**columns: Any) -> list[pa.RecordBatch]:
    types = {"headers": HEADER_TYPE, "partition": pa.int32(), "time": pa.timestamp("us", "UTC")}
    return [pa.RecordBatch.from_pydict({name: pa.array(column, types.get(name)) for name, column in columns.items()})]


def options(path: Path, **given: Any) -> SinkOptions:
    return SinkOptions.parse({"path": str(path), **{name: str(value) for name, value in given.items()}})


def staged(batches: list[pa.RecordBatch], chosen: SinkOptions, job: str, task: int, attempt: str) -> tuple[StagedFile, ...]:
    """As the driver and one of its tasks do it."""
    assert chosen.path is not None
    make_staging(Disk(), chosen.path, chosen.staging)
    return stage(batches, chosen, job, task, attempt)


def write(
    path: Path,
    batches: list[pa.RecordBatch],
    *,
    job: str = "job",
    query: str | None = None,
    batch: int | None = None,
    **given: Any,
) -> int:
    chosen = options(path, **given)
    place = f"{chosen.staging}/{job}"
    files = staged(batches, chosen, place, 0, "000000-0")
    return Commit(chosen, place).run(files, query, batch)


def read(path: Path, topic: str = "t") -> list[tuple[Any, ...]]:
    found = read_rows({"path": path, "subscribe": topic})
    return [(row["partition"], row["offset"], row["key"], row["value"], row["headers"]) for row in found]


def test_rows_are_read_back(tmp_path):
    data = tmp_path / "data"
    assert (
        write(
            data, rows(key=["a", None, "b"], value=["1", None, "3"], headers=[[{"key": "h", "value": b"x"}], None, []]), topic="t"
        )
        == 3
    )
    assert read(data) == [
        (0, 0, b"a", b"1", [("h", b"x")]),
        (0, 1, None, None, None),
        (0, 2, b"b", b"3", None),
    ]
    assert write(data, rows(value=[b"4"]), topic="t") == 1
    assert read(data)[-1] == (0, 3, None, b"4", None)


def test_keys_go_to_javas_partitions(tmp_path):
    data = tmp_path / "data"
    keys = [f"key-{number}" for number in range(200)]
    write(data, rows(key=keys, value=keys), topic="t", partitions=7)
    found = read(data)
    assert len(found) == 200
    assert all(partition == partition_for(key, 7) for partition, _, key, _, _ in found)
    # Rows of one partition keep their order.
    for number in range(7):
        own = [value.decode() for partition, _, _, value, _ in found if partition == number]
        assert own == [key for key in keys if partition_for(key.encode(), 7) == number]


def test_partition_column_goes_first(tmp_path):
    data = tmp_path / "data"
    write(data, rows(key=["a", "a"], value=["1", "2"], partition=[3, None]), topic="t", partitions=4)
    assert sorted((partition, value) for partition, _, _, value, _ in read(data)) == sorted(
        [(3, b"1"), (partition_for(b"a", 4), b"2")]
    )


@pytest.mark.parametrize("attempt", range(3))
def test_few_descriptors_for_many_threads_put_every_record_into_its_own_partition(tmp_path, monkeypatch, attempt):
    """Each partition is appended to by one of 64 threads, and no more than 8 files are meant to be open."""
    monkeypatch.setattr("milepost.log.manager.HandlePool", partial(HandlePool, limit=8))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    data, partitions, count = tmp_path / "data", 64, 64 * 120
    given = {"topic": "t", "partitions": partitions, "segmentBytes": 16384, "kafka.batch.size": 512}
    values = [b"%04d %d" % (number % partitions, number) + b"." * 200 for number in range(count)]
    for _ in range(2):
        write(data, rows(value=values, partition=[number % partitions for number in range(count)]), **given)
    found: dict[int, list[bytes]] = {}
    for partition, _, _, value, _ in read(data):
        found.setdefault(partition, []).append(value)
    assert found == {partition: values[partition::partitions] * 2 for partition in range(partitions)}


@pytest.mark.parametrize("partition", [-1, 4])
def test_partition_that_does_not_exist(tmp_path, partition):
    with pytest.raises(InvalidArgument, match=f"a row is for partition {partition} of t, which has 4"):
        write(tmp_path / "data", rows(value=["1"], partition=[partition]), topic="t", partitions=4)
    assert not (tmp_path / ".data.staging" / "job" / "000000-0").exists()


def test_topic_option_goes_before_the_column(tmp_path):
    data = tmp_path / "data"
    write(data, rows(value=["1", "2"], topic=["x", "y"]))
    assert [row[3] for row in read(data, "x")] == [b"1"]
    write(data, rows(value=["3"], topic=["x"]), topic="y")
    assert [row[3] for row in read(data, "y")] == [b"2", b"3"]


def test_row_without_a_topic(tmp_path):
    with pytest.raises(InvalidArgument, match="a row has no topic"):
        write(tmp_path / "data", rows(value=["1"], topic=pa.array([None], pa.string())))


def test_name_that_is_no_topic(tmp_path):
    with pytest.raises(InvalidArgument, match="topic name 'a/b'"):
        write(tmp_path / "data", rows(value=["1"]), topic="a/b")


def test_times_of_a_column(tmp_path):
    data = tmp_path / "data"
    write(data, rows(value=["1", "2"], time=[1_700_000_000_123_456, None]), topic="t", timestampColumn="time")
    found = read_rows({"path": data, "subscribe": "t"})
    assert found[0]["timestamp"] == 1_700_000_000_123
    assert found[1]["timestamp"] > 1_700_000_000_123


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(tmp_path, codec):
    data = tmp_path / "data"
    values = [f"value {number}" * 10 for number in range(500)]
    write(data, rows(value=values), topic="t", **{"kafka.compression.type": codec})
    assert [row[3].decode() for row in read(data)] == values


def test_batches_are_cut_by_size(tmp_path):
    data = tmp_path / "data"
    write(data, rows(value=["x" * 1000] * 100), topic="t", **{"kafka.batch.size": "10000"})
    batches = read_batches(data)
    assert len(batches) == pytest.approx(10, abs=2)
    assert sum(batches) == 100


def read_batches(data: Path) -> list[int]:
    stored = b"".join(path.read_bytes() for path in sorted((data / "t-0").glob("*.log")))
    return [batch.record_count for batch in iter_batches(stored)]


def test_segments_and_indexes_are_those_of_a_log(tmp_path):
    data = tmp_path / "data"
    write(data, rows(value=["x" * 1000] * 200), topic="t", segmentBytes="50k", **{"kafka.batch.size": "10000"})
    assert len(list((data / "t-0").glob("*.log"))) >= 4
    from milepost.inspect.verify.verify import verify

    report = verify(str(data))
    assert report.is_clean, report.findings


# Exactly once.


def test_batch_of_a_query_is_written_once(tmp_path):
    data = tmp_path / "data"
    assert write(data, rows(value=["1"]), topic="t", job="q-0", query="q", batch=0) == 1
    assert write(data, rows(value=["1"]), topic="t", job="q-0", query="q", batch=0) == 0
    assert write(data, rows(value=["2"]), topic="t", job="q-1", query="q", batch=1) == 1
    assert write(data, rows(value=["1"]), topic="t", job="p-0", query="p", batch=0) == 1
    assert [row[3] for row in read(data)] == [b"1", b"2", b"1"]
    assert json.loads((data / "milepost.sink.json").read_text()) == {"version": 1, "queries": {"p": 0, "q": 1}}


class Killed(Exception):
    pass


@pytest.mark.parametrize("stop_after", range(9))
def test_commit_that_was_interrupted_anywhere_is_finished_once(tmp_path, monkeypatch, stop_after):
    """Killed after so many appends, the log still in the air; then the batch is run again, with other staged files."""
    data = tmp_path / "data"
    write(data, rows(value=["before"]), topic="t", partitions=2, job="q-0", query="q", batch=0)
    values = [f"{number}" for number in range(40)]
    batches = rows(key=values, value=values)
    given = {"topic": "t", "partitions": 2, "kafka.batch.size": "100"}
    chosen = options(data, **given)
    job = f"{chosen.staging}/q-1"
    files = staged(batches, chosen, job, 0, "000000-0")
    kill_after_appends(monkeypatch, stop_after)
    with pytest.raises(Killed):
        Commit(chosen, job).run(files, "q", 1)
    monkeypatch.undo()
    assert [row[3] for row in read(data)] == [b"before"], "nothing of an unfinished batch is seen"
    again = staged(batches, chosen, job, 0, "000000-1")
    assert Commit(chosen, job).run(again, "q", 1) == 40
    assert sorted(row[3] for row in read(data)) == sorted([b"before", *(value.encode() for value in values)])
    assert not Path(job).exists()


def kill_after_appends(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    from milepost.spark.sink import commit

    left, real = [count], commit.append

    def append(log: Any, batch: bytearray) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        real(log, batch)

    monkeypatch.setattr(commit, "append", append)


@pytest.mark.parametrize("stop_after", [1, 4, 6])
def test_what_an_interrupted_write_of_another_job_left_is_cut_off(tmp_path, monkeypatch, stop_after):
    data = tmp_path / "data"
    given = {"topic": "t", "kafka.batch.size": "100"}
    write(data, rows(value=["before"]), **given)
    chosen = options(data, **given)
    job = f"{chosen.staging}/dead"
    files = staged(rows(value=[f"{number}" for number in range(40)]), chosen, job, 0, "000000-0")
    kill_after_appends(monkeypatch, stop_after)
    with pytest.raises(Killed):
        Commit(chosen, job).run(files)
    monkeypatch.undo()
    write(data, rows(value=["after"]), job="other", **given)
    assert [row[3] for row in read(data)] == [b"before", b"after"]


@pytest.mark.parametrize("again", ["q-0", "r-0"])
def test_commit_that_was_named_but_not_shown_yet_is_shown_by_whoever_comes_next(tmp_path, monkeypatch, again):
    data = tmp_path / "data"
    write(data, rows(value=["before"]), topic="t")
    name = Commit._note

    def name_and_die(self: Commit, query: str, batch_id: int) -> None:
        name(self, query, batch_id)
        raise Killed

    monkeypatch.setattr(Commit, "_note", name_and_die)
    with pytest.raises(Killed):
        write(data, rows(value=["1", "2"]), topic="t", job="q-0", query="q", batch=0)
    monkeypatch.undo()
    assert [row[3] for row in read(data)] == [b"before"]
    chosen = options(data, topic="t")
    files = staged(rows(value=["1", "2"]), chosen, f"{chosen.staging}/{again}", 0, "000000-1")
    assert Commit(chosen, f"{chosen.staging}/{again}").run(files, "q", 0) == 0
    assert [row[3] for row in read(data)] == [b"before", b"1", b"2"]


def test_directory_that_a_broker_has_open(tmp_path):
    data = tmp_path / "data"
    write(data, rows(value=["1"]), topic="t")
    with milepost.Broker(data), pytest.raises(DirectoryLocked, match="has it open"):
        write(data, rows(value=["2"]), topic="t")


def test_broker_serves_what_was_written(tmp_path):
    from confluent_kafka import Consumer

    data = tmp_path / "data"
    write(data, rows(key=["k"] * 100, value=[f"{number}" for number in range(100)]), topic="t", partitions=3)
    with milepost.Broker(data) as running:
        consumer = Consumer({"bootstrap.servers": running.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found = []
        while len(found) < 100:
            message = consumer.poll(10)
            assert message is not None
            found.append(int(message.value()))
        consumer.close()
    assert found == list(range(100))


def test_what_was_staged_long_ago_is_swept(tmp_path):
    from milepost.clock import ManualClock, SystemClock

    chosen = options(tmp_path / "data", topic="t")
    staged(rows(value=["1"]), chosen, f"{chosen.staging}/old", 0, "000000-0")
    sweep(Disk(), chosen.staging, SystemClock())
    assert (Path(chosen.staging) / "old").exists()
    sweep(Disk(), chosen.staging, ManualClock(SystemClock().now_ms() + 25 * 3600 * 1000))
    assert not (Path(chosen.staging) / "old").exists()


# Over the wire.


def test_rows_are_produced(tmp_path):
    values = [f"{number}" for number in range(3000)]
    with milepost.Broker(tmp_path / "data") as running:
        running.create_topic("t", partitions=3)
        chosen = SinkOptions.parse(
            {"kafka.bootstrap.servers": running.bootstrap_servers, "topic": "t", "kafka.batch.size": "5000"}
        )
        assert produce(rows(key=values, value=values), chosen, 0) == 3000
        found = read_rows({"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t"})
    assert sorted(row["value"].decode() for row in found) == sorted(values)
    assert all(row["partition"] == partition_for(row["key"], 3) for row in found)


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_answers_that_are_lost_double_nothing_within_a_task(tmp_path, monkeypatch, lost):
    """The broker has stored a batch, and the connection breaks before it can say so: every so many answers, again and again."""
    values = [f"{number}" for number in range(300)]
    answers, real = [0], Connection.receive

    def receive(self: Connection, timeout: float | None = None) -> Any:
        answer = real(self, timeout)
        if isinstance(answer, ProduceResponse):
            answers[0] += 1
            # When it is asked again, it is answered.
            if answers[0] % (lost + 1) == 0:
                self.close()
                raise BrokerUnavailable("the connection broke")
        return answer

    with milepost.Broker(tmp_path / "data") as running:
        running.create_topic("t", partitions=2)
        chosen = SinkOptions.parse(
            {"kafka.bootstrap.servers": running.bootstrap_servers, "topic": "t", "kafka.batch.size": "500"}
        )
        monkeypatch.setattr(Connection, "receive", receive)
        assert produce(rows(key=values, value=values), chosen, 0) == 300
        monkeypatch.undo()
        found = read_rows({"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t"})
    assert answers[0] > 8
    assert sorted(int(row["value"]) for row in found) == list(range(300))


# Rules.


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([("key", "string")], "a column value is needed"),
        ([("value", "int")], "column value is int; string or binary is expected"),
        ([("value", "string"), ("partition", "bigint")], "column partition is bigint; int is expected"),
        ([("value", "string"), ("headers", "string")], "column headers is string"),
    ],
)
def test_columns_that_do_not_fit(tmp_path, fields, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        check_columns(fields, options(tmp_path, topic="t"))


def test_topic_is_needed(tmp_path):
    with pytest.raises(InvalidArgument, match="to which topic"):
        check_columns([("value", "string")], options(tmp_path))


def test_time_column_must_be_one(tmp_path):
    with pytest.raises(InvalidArgument, match="timestampColumn is at, which is string"):
        check_columns([("value", "string"), ("at", "string")], options(tmp_path, topic="t", timestampColumn="at"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "where to"),
        ({"path": "a,b"}, "path names 2 directories"),
        ({"path": "a", "kafka.compression.type": "rar"}, "kafka.compression.type is 'rar'"),
        ({"kafka.bootstrap.servers": "h:1", "kafka.acks": "1"}, "kafka.acks is 1"),
        ({"kafka.bootstrap.servers": "h:1", "kafka.transactional.id": "x"}, "kafka.transactional.id"),
        (
            {"kafka.bootstrap.servers": "h:1", "kafka.key.serializer": "x"},
            "kafka.key.serializer cannot be set: keys are written as",
        ),
        ({"path": "a", "kafka.value.serializer": "x"}, "kafka.value.serializer cannot be set: values are written as they are"),
        ({"path": "a", "segmentByte": "1m"}, "option segmentbyte is unknown; is segmentBytes meant"),
    ],
)
def test_options_that_do_not_fit(given, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        SinkOptions.parse(given)


def test_options_that_the_connector_takes_are_taken(caplog):
    given = {"topic": "t", "includeHeaders": "true", "checkpointLocation": "c", "kafka.linger.ms": "5", "kafka.acks": "-1"}
    with caplog.at_level(logging.WARNING, "milepost.spark"):
        SinkOptions.parse({"kafka.bootstrap.servers": "h:1", **given})
    assert caplog.text == ""
    with pytest.raises(InvalidArgument, match="option mergeschema is unknown"):
        SinkOptions.parse({"path": "a", "mergeSchema": "true"})


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in ("checkpointLocation", "queryName")])
def test_every_option_stands_in_the_table_of_the_page(name):
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text().partition("## Write")[2]
    assert any(f"`{name}`" in line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))


def test_staged_files_are_named_by_partition(tmp_path):
    chosen = options(tmp_path / "data", topic="t", partitions=2)
    (file,) = staged(rows(value=["1"], partition=[1]), chosen, f"{chosen.staging}/job", 0, "000000-7")
    assert file == StagedFile(TopicPartition("t", 1), f"{chosen.staging}/job/000000-7/t-1.log", Path(file.path).stat().st_size, 1)


# Where it is written to.


def test_relative_path_means_the_directory_of_the_driver(tmp_path, monkeypatch):
    driver, executor = tmp_path / "driver", tmp_path / "executor"
    driver.mkdir()
    executor.mkdir()
    monkeypatch.chdir(driver)
    chosen = SinkOptions.parse({"path": "data", "topic": "t", "stagingPath": "../staged"})
    writer = MilepostWriter(chosen)
    monkeypatch.chdir(executor)
    files = stage(rows(value=["1"]), chosen, writer.job, 0, "000000-0")
    assert list(executor.iterdir()) == []
    Commit(chosen, writer.job).run(files)
    assert [row[-2] for row in read(driver / "data")] == [b"1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["driver", "executor", "staged"]


@pytest.mark.parametrize("option", ["path", "stagingPath"])
def test_relative_path_is_refused_over_spark_connect(tmp_path, monkeypatch, option):
    monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", "b201913e-d6cb-4c10-841b-820e6d040eaa")
    given = {"path": str(tmp_path / "data"), "topic": "t"}
    with pytest.raises(InvalidArgument, match=f"{option} is here, a relative path, .*Spark Connect.*give an absolute path"):
        SinkOptions.parse({**given, option: "here"})
    assert SinkOptions.parse(given).path == given["path"]


def test_executor_without_the_directory_says_so_and_leaves_nothing(tmp_path):
    chosen = options(tmp_path / "data", topic="t")
    with pytest.raises(KafkaStorage, match=f"{tmp_path}/.data.staging: .*the driver made it.*mount"):
        stage(rows(value=["1"]), chosen, f"{chosen.staging}/job", 0, "000000-0")
    assert list(tmp_path.iterdir()) == []


def test_driver_that_does_not_see_what_was_staged_says_so(tmp_path):
    chosen = options(tmp_path / "data", topic="t")
    writer = MilepostWriter(chosen)
    files = stage(rows(value=["1"]), chosen, writer.job, 0, "000000-0")
    os.unlink(files[0].path)
    with pytest.raises(KafkaStorage, match=f"{files[0].path}: staged by a task.*the driver does not see it.*Mount"):
        writer.commit([Written(1, files)])
    assert not (tmp_path / "data" / "t-0").exists()


def test_directory_that_would_be_made_nowhere_is_named_before_anything_runs(tmp_path):
    chosen = options(tmp_path / "missing" / "data", topic="t")
    with pytest.raises(KafkaStorage, match=f"{tmp_path}/missing/data: there is no directory {tmp_path}/missing"):
        MilepostWriter(chosen)
