"""Pipeline files: what is understood, and one sentence for everything that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk
from milepost.spark.pipeline.definition import parse_pipeline, read_pipeline
from milepost.spark.pipeline.loading import new_files
from milepost.spark.pipeline.run import plan
from milepost.spark.pipeline.state import PipelineState

GOOD = """
name: p
data: data
stages:
  - load: {from: events, topic: t}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: "SELECT * FROM v", to: [{parquet: out}, {topic: u, key: a}]}
  - report: {to: out/report.html}
"""


def parse(text: str, base: str = "/base"):
    return parse_pipeline(text, base, "p.yml", Disk())


def test_paths_are_relative_to_the_file():
    pipeline = parse(GOOD)
    assert (pipeline.data, pipeline.work) == ("/base/data", "/base/.p")
    load, transform, report = pipeline.stages
    assert load.settings["from"] == "/base/events"
    assert transform.settings["to"] == [{"parquet": "/base/out"}, {"topic": "u", "key": "a"}]
    assert report.settings["to"] == "/base/out/report.html"
    assert [stage.title for stage in pipeline.stages] == ["1 load", "2 transform", "3 report"]


def test_sql_may_be_a_file(tmp_path):
    (tmp_path / "q.sql").write_text("SELECT 1")
    pipeline = parse(GOOD.replace('"SELECT * FROM v"', "q.sql"), str(tmp_path))
    assert pipeline.stages[1].settings["sql"] == "SELECT 1"
    with pytest.raises(InvalidArgument, match=r"stage 2: .*other\.sql: No such file"):
        parse(GOOD.replace('"SELECT * FROM v"', "other.sql"), str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name: p", "nam: p", "p.yml: name is missing"),
        ("- load", "- laod", "stage 1: laod is no stage; is load meant"),
        ("from: events, ", "", r"stage 1 \(load\): from is missing"),
        ("topic: t}", "topic: t, partition: 4}", r"stage 1 \(load\): partition is unknown; is partitions meant"),
        ("to: [{parquet: out}, {topic: u, key: a}]", "to: [{parquet: out, topic: u}]", "stage 2: to is a list of"),
        ("stages:", "stages: {", "not YAML"),
    ],
)
def test_mistakes_are_named(old, new, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        parse(GOOD.replace(old, new, 1))


def test_file_that_is_not_there():
    with pytest.raises(InvalidArgument, match=r"nowhere.yml: No such file or directory; a pipeline file is expected"):
        read_pipeline("nowhere.yml")


def test_plan_says_what_would_be_done_and_changes_nothing(tmp_path):
    (tmp_path / "p.yml").write_text(GOOD)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text("{}")
    (tmp_path / "events" / "_SUCCESS").write_text("")
    lines = list(plan(read_pipeline(str(tmp_path / "p.yml"))))
    assert lines == [
        f"1 load: 1 new json files in {tmp_path}/events to topic t in {tmp_path}/data",
        f"2 transform: SQL over t (not there yet) to {tmp_path}/out, topic u",
        f"3 report: report to {tmp_path}/out/report.html",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "p.yml"]


def test_plan_of_a_pipeline_without_its_files(tmp_path):
    (tmp_path / "p.yml").write_text(GOOD)
    with pytest.raises(InvalidArgument, match="events: no such directory; it should hold the files to load"):
        list(plan(read_pipeline(str(tmp_path / "p.yml"))))


def test_run_that_did_not_finish_is_gone_on_with(tmp_path):
    state = PipelineState(str(tmp_path / "w"), Disk())
    assert not state.begin("a")
    state.note("1 load", is_done=True)
    state.note("2 transform", ends={"t": {"0": 5}})
    again = PipelineState(str(tmp_path / "w"), Disk())
    assert again.begin("a")
    assert again.run == 1
    assert again.is_done("1 load")
    assert again.of("2 transform")["ends"] == {"t": {"0": 5}}
    again.end()
    third = PipelineState(str(tmp_path / "w"), Disk())
    assert not third.begin("a")
    assert (third.run, third.is_done("1 load"), third.of("2 transform")) == (2, False, {})


def test_run_that_did_not_finish_is_over_when_the_pipeline_is_another_one(tmp_path):
    state = PipelineState(str(tmp_path / "w"), Disk())
    state.begin("a")
    state.note("1 load", is_done=True)
    state.note_loaded("1 load", {"a.json": 2})
    again = PipelineState(str(tmp_path / "w"), Disk())
    assert not again.begin("b")
    assert (again.run, again.id, again.is_done("1 load"), again.loaded) == (2, state.id, False, {"1 load": {"a.json": 2}})
    assert parse(GOOD).digest != parse(GOOD.replace("SELECT *", "SELECT a")).digest


def test_state_that_no_pipeline_wrote(tmp_path):
    (tmp_path / "pipeline.json").write_text("[]")
    with pytest.raises(KafkaStorage, match=r"pipeline\.json: not what a pipeline wrote .*; move it away to begin anew"):
        PipelineState(str(tmp_path), Disk())


def test_file_that_changed_after_it_was_loaded(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text("{}")
    state = PipelineState(str(tmp_path / "w"), Disk())
    state.note_loaded("1 load", {"a.json": 1})
    (load, *_) = parse(GOOD, str(tmp_path)).stages
    with pytest.raises(InvalidArgument, match=r"a\.json was loaded with 1 bytes and has 2 now; put new events into new files"):
        new_files(Disk(), load, state)
    (tmp_path / "events" / "a.json").write_text("{")
    (tmp_path / "events" / "b.json").write_text("{}")
    assert new_files(Disk(), load, state) == {"b.json": 2}


def test_shipped_example_is_understood():
    pipeline = read_pipeline(str(Path(__file__).parents[3] / "examples/page_visits/pipeline.yml"))
    assert [stage.kind for stage in pipeline.stages] == [
        "load",
        "verify",
        "transform",
        "transform",
        "transform",
        "export",
        "report",
    ]
