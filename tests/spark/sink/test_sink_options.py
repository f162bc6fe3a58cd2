"""What the sink refuses: columns, options, and places it cannot write to."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.spark.sink.batch_writer import MilepostWriter
from milepost.spark.sink.commit import Commit
from milepost.spark.sink.messages import Written
from milepost.spark.sink.options import KNOWN, SinkOptions
from milepost.spark.sink.rows import check_columns
from milepost.spark.sink.staging import StagedFile
from milepost.spark.sink.task import stage
from milepost.topic_partition import TopicPartition
from tests.spark.sink.writing import options, read, rows, staged

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
