"""Pipeline files: what is understood, and one sentence for everything that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.pipeline.definition import parse_pipeline, read_pipeline
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
    lines = list(plan(read_pipeline(str(tmp_path / "p.yml"))))
    assert lines == [
        f"1 load: json files in {tmp_path}/events to topic t in {tmp_path}/data",
        f"2 transform: SQL over t (not there yet) to {tmp_path}/out, topic u",
        f"3 report: report to {tmp_path}/out/report.html",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["p.yml"]


def test_run_that_did_not_finish_is_gone_on_with(tmp_path):
    state = PipelineState(str(tmp_path / "w"), Disk())
    assert not state.begin()
    state.note("1 load", is_done=True)
    state.note("2 transform", ends={"t": {"0": 5}})
    again = PipelineState(str(tmp_path / "w"), Disk())
    assert again.begin()
    assert again.run == 1
    assert again.is_done("1 load")
    assert again.of("2 transform")["ends"] == {"t": {"0": 5}}
    again.end()
    third = PipelineState(str(tmp_path / "w"), Disk())
    assert not third.begin()
    assert (third.run, third.is_done("1 load"), third.of("2 transform")) == (2, False, {})


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
