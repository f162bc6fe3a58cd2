"""The shipped pipeline, from events to report: killed behind every stage and gone on with, nothing is lost and nothing comes twice."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from milepost.errors import InvalidArgument, PipelineMistakes
from milepost.files import Disk
from milepost.spark.jobs.job import CheckFailed
from milepost.spark.pipeline.definition import Pipeline, read_pipeline
from milepost.spark.pipeline.run import plan, run
from milepost.spark.pipeline.state import PipelineState
from milepost.spark.pipeline.transform import _ensure_same_stream
from tests.spark.rows import read_rows
from tests.waiting import PROCESS_PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "page_visits"
LOAD, STREAM, EXPORT = "1 load", "5 transform", "6 export"
NAMES = (
    "load events to page_visits",
    "transform page_visits to out/sessions, sessions",
    "transform page_visits to out/pages_per_hour",
    "export page_visits to out/page_visits",
)


WRONG_FOR_SPARK = """
name: p
data: data
stages:
  - load: {from: events, topic: t, schema: "user strin", key: user}
  - load: {from: more, topic: t, schema: "user string", key: usr}
  - transform: {read: {v: {topic: t, schema: "a int b int"}}, sql: SELECT 1, to: [{parquet: out/a}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: SELEC a FROM v, to: [{parquet: out/b}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: SELECT b FROM v, to: [{parquet: out/c}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: DROP VIEW v, to: [{parquet: out/d}]}
  - transform:
      read: {v: {topic: t, schema: "a int"}}
      stream: true
      watermark: {v: [b, 1 hour]}
      sql: SELECT a, _offset FROM v;
      to: [{topic: u, key: c}]
  - transform:
      read: {v: {topic: t, schema: "a int, at timestamp"}, w: {topic: t, schema: "a int"}}
      stream: true
      watermark: {v: [at, soon], w: [a, 1 hour]}
      sql: SELECT v.a FROM v JOIN w ON v.a = w.a
      to: [{topic: x}]
"""


WRONG_COLUMN = """
name: p
data: data
stages:
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: SELECT nope FROM v, to: [{topic: u}]}
  - export: {topic: t, to: lake, by: week}
"""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("arguments", [["--dry-run"], []])
def test_nobody_hears_of_spark_and_its_jvm_but_all_mistakes_in_one_go(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "p.yml").write_text(WRONG_COLUMN)
    command = [sys.executable, "-m", "milepost.cli", "pipeline", "run", str(tmp_path / "p.yml"), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    form, query = ran.stderr.splitlines()
    assert form == f"milepost: {tmp_path}/p.yml:6: stage 2 (export): by is 'week'; hour, date or none is possible"
    assert query.startswith(f"milepost: {tmp_path}/p.yml:5: stage 1 (transform): sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION]")


def test_schemas_and_queries_are_checked_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("events", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text('{"user": "u"}')
    (tmp_path / "p.yml").write_text(WRONG_FOR_SPARK)
    with pytest.raises(PipelineMistakes) as caught:
        run(spark, read_pipeline(str(tmp_path / "p.yml")))
    found = [line.removeprefix(f"{tmp_path}/p.yml:") for line in caught.value.lines]
    expected = [
        "5: stage 1 (load): schema is no list of columns such as 'user string, at timestamp': [",
        "6: stage 2 (load): key is 'usr', which is no column of the schema; there are user",
        "7: stage 3 (transform): read v: schema is no list of columns such as 'user string, at timestamp': [",
        "8: stage 4 (transform): sql: [PARSE_SYNTAX_ERROR]",
        "9: stage 5 (transform): sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION]",
        "10: stage 6 (transform): sql: [PARSE_SYNTAX_ERROR]",
        "11: stage 7 (transform): watermark v: 'b' is no column of the view; there are a, _key, _time, _offset",
        "11: stage 7 (transform): to: key is 'c', which the query does not give; it gives a, _offset",
        "17: stage 8 (transform): watermark v: [CANNOT_PARSE_INTERVAL]",
        "17: stage 8 (transform): watermark w: 'a' is int; a column of type timestamp is expected",
    ]
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "more", "p.yml"]


class Killed(BaseException):
    pass


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "visits"
    shutil.copytree(EXAMPLE, found, ignore=shutil.ignore_patterns("data", "work", "out", "events"))
    return found


def made_events(place: Path, count: int) -> list[dict[str, str]]:
    """Written in two files; also as they are."""
    program = runpy.run_path(str(place / "events.py"))
    program["write"](place / "events", count, 2)
    found: list[dict[str, str]] = program["events"](count)
    return found


def kill_when_done(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """All of a stage is done, but that it is done was not noted yet."""
    note = PipelineState.note

    def note_or_die(self: PipelineState, title: str, **values: Any) -> None:
        if title == stage and values.get("is_done"):
            raise Killed
        note(self, title, **values)

    monkeypatch.setattr(PipelineState, "note", note_or_die)


def values(data: Path, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row["value"]) for row in read_rows({"path": data, "subscribe": topic})]


def visit(event: dict[str, Any]) -> tuple[str, str, str]:
    """Up to the milliseconds that a record has."""
    return event["user"], event["url"], event["at"][:23]


def test_killed_behind_each_stage_everything_is_there_once(
    spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = made_events(place, 600)
    pipeline = read_pipeline(str(place / "pipeline.yml"))
    for stage in NAMES:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_when_done(patch, stage)
            run(spark, pipeline)
    assert list(plan(pipeline))[:4] == [
        "run 1 did not finish and is gone on with",
        "1 load: done already",
        "2 verify: done already",
        "3 transform: done already",
    ]
    told: list[str] = []
    done = run(spark, pipeline, told.append)
    assert [each.outcome for each in done.stages] == ["done before"] * 5 + ["done"] * 2
    assert told[0] == "run 1 did not finish and is gone on with"
    assert Counter(map(visit, values(place / "data", "page_visits"))) == Counter(map(visit, events))
    sessions = spark.read.parquet(str(place / "out/sessions")).collect()
    assert sum(row["visits"] for row in sessions) == 600
    assert sorted((row["user"], row["session"]) for row in sessions) == sorted(
        (row["user"], row["session"]) for row in values(place / "data", "sessions")
    )
    # The last hour waits until the watermark has passed it.
    per_hour = Counter((event["at"][11:13], event["url"]) for event in events if event["at"][11:13] < "11")
    streamed = spark.read.parquet(str(place / "out/pages_per_hour")).collect()
    assert sorted((f"{row['hour']:%H}", row["url"], row["visits"]) for row in streamed) == sorted(
        (hour, url, count) for (hour, url), count in per_hour.items()
    )
    exported = spark.read.parquet(str(place / "out/page_visits")).selectExpr("CAST(value AS STRING) AS value").collect()
    assert Counter(visit(json.loads(row["value"])) for row in exported) == Counter(map(visit, events))
    page = (place / "out/report.html").read_text()
    assert done.report == str(place / "out/report.html")
    for text in ("<h1>page_visits</h1>", "5 transform", "600 records", "records per hour", "times smaller", "records behind"):
        assert text in page
    next_run_takes_what_is_new(spark, place, pipeline, events)


def next_run_takes_what_is_new(spark: SparkSession, place: Path, pipeline: Pipeline, events: list[dict[str, str]]) -> None:
    later = {"user": "user-1", "url": "/home", "at": "2018-05-15T13:00:00.000Z"}
    (place / "events" / "later.json").write_text(json.dumps(later) + "\n")
    done = run(spark, pipeline)
    assert (done.number, {each.outcome for each in done.stages}) == (2, {"done"})
    summaries = {each.title: each.summary for each in done.stages}
    assert summaries[LOAD] == "1 files with 1 records to topic page_visits"
    assert summaries[STREAM].startswith("1 records streamed")
    assert ", 1 records," in summaries[EXPORT]
    assert Counter(map(visit, values(place / "data", "page_visits"))) == Counter(map(visit, [*events, later]))
    # It is late enough for the watermark to pass the hour that waited.
    streamed = spark.read.parquet(str(place / "out/pages_per_hour"))
    assert streamed.selectExpr("sum(visits)").collect()[0][0] == 600


def test_damage_stops_the_pipeline_before_anything_is_made_of_it(spark: SparkSession, tmp_path: Path) -> None:
    import milepost

    with milepost.open_log(tmp_path / "data" / "t-0", mode="a") as log:
        log.append([milepost.Record(value=b"1")])
        log.append([milepost.Record(value=b"2")])
    segment = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    (tmp_path / "p.yml").write_text("{name: p, data: data, stages: [{verify: {}}, {export: {topic: t, to: out}}]}")
    with pytest.raises(CheckFailed, match=r"1 verify: \d findings in .*/data; milepost verify shows them"):
        run(spark, read_pipeline(str(tmp_path / "p.yml")))
    assert not (tmp_path / "out").exists()


def test_table_of_a_stream_whose_checkpoint_is_gone_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match=r"written by a stream whose checkpoint is not in .*; move the directory away"):
        _ensure_same_stream(Disk(), str(tmp_path / "checkpoint"), str(tmp_path / "out"))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    _ensure_same_stream(Disk(), str(tmp_path / "checkpoint"), str(tmp_path / "out"))
