"""Pipeline files: what is understood, and one sentence for everything that is not."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from milepost.errors import InvalidArgument, KafkaStorage, PipelineMistakes
from milepost.files import Disk
from milepost.spark.pipeline.checking import mistakes
from milepost.spark.pipeline.definition import parse_pipeline, read_pipeline
from milepost.spark.pipeline.file_schema import json_schema
from milepost.spark.pipeline.loading import new_files
from milepost.spark.pipeline.run import plan
from milepost.spark.pipeline.state import PipelineState

GOOD = """
name: p
data: data
stages:
  - load: {from: events, topic: t}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: "SELECT * FROM v", to: [{parquet: out}, {topic: u, key: a}]}
  - report: {to: report.html}
"""


def parse(text: str, base: str = "/base"):
    return parse_pipeline(text, base, "p.yml", Disk())


def test_paths_are_relative_to_the_file():
    pipeline = parse(GOOD)
    assert (pipeline.data, pipeline.work) == ("/base/data", "/base/.p")
    load, transform, report = pipeline.stages
    assert load.settings["from"] == "/base/events"
    assert transform.settings["to"] == [{"parquet": "/base/out"}, {"topic": "u", "key": "a"}]
    assert report.settings["to"] == "/base/report.html"
    assert [stage.title for stage in pipeline.stages] == ["1 load", "2 transform", "3 report"]


def test_sql_may_be_a_file(tmp_path):
    (tmp_path / "q.sql").write_text("SELECT 1")
    pipeline = parse(GOOD.replace('"SELECT * FROM v"', "q.sql"), str(tmp_path))
    assert pipeline.stages[1].settings["sql"] == "SELECT 1"
    with pytest.raises(PipelineMistakes) as caught:
        parse(GOOD.replace('"SELECT * FROM v"', "other.sql").replace("topic: t}", "topic: t, sort: 1}", 1), str(tmp_path))
    assert [line.partition(": ")[2] for line in caught.value.lines] == [
        "stage 1 (load): sort is 1; true or false is expected",
        f"stage 2 (transform): sql is {tmp_path}/other.sql: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name: p", "nam: p", r"p\.yml:2: name is missing"),
        ("- load", "- laod", "stage 1: laod is no stage; is load meant"),
        ("from: events, ", "", r"stage 1 \(load\): from is missing"),
        ("topic: t}", "topic: t, partition: 4}", r"stage 1 \(load\): partition is unknown; is partitions meant"),
        ("to: [{parquet: out}, {topic: u, key: a}]", "to: [{parquet: out, topic: u}]", "to either parquet or topic is expected"),
        ("key: a}", "key: a, mode: again}", r"stage 2 \(transform\): to, mode is 'again'; replace or append is possible"),
        ("parquet: out}", "parquet: out, mode: append}", "to, mode is append; a Parquet directory is replaced as a whole"),
        ("sql:", "stream: true, mode: append, sql:", r"stage 2 \(transform\): mode is append; a stream writes what is new, and has none"),
        ("from: events", "name: a=b, from: events", r"stage 1 \(load\): name is 'a=b'; a text without = is expected"),
        (
            "  - report: {to: report.html}",
            "  - load: {from: ./events, topic: t, format: csv}",
            r"p\.yml:7: stage 3 \(load\): is called 'load events to t', as stage 1 is; give each a name of its own",
        ),
        ("stages:", "stages: {", "not YAML"),
    ],
)
def test_mistakes_are_named(old, new, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        parse(GOOD.replace(old, new, 1))


EVERYTHING_WRONG = """
name: p
data: data
stages:
  - load: events
  - load: {from: events, topic: t, partitions: many, compression: brotli, sort: "yes"}
  - transform: {read: [v], sql: 5, to: [{parquet: out}]}
  - transform:
      read: {v: {topic: t, schema: "a int"}}
      sql: SELECT 1
      to: [{parquet: lake, key: a}]
      stream: "no"
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{topic: u}], watermark: {w: [a, 1 hour]}}
  - export: {topic: t, to: lake, by: week, format: iceberg}
  - export: {topic: t, to: lake}
  - export: {topic: u, to: ./lake, topic: v}
  - verify:
  - export: {topic: w, to: 5, partitions: true}
  - [report]
  - transform: {read: {my-view: t, 1: {topic: t/u, schema: x}}, sql: q, to: [x, {topic: a b, parquet: o}, {}, {parquet: o, key: k}]}
  - load: {from: more, topic: ., name: a=b}
  - load: {from: more, topic: m}
  - load: {from: ./more, topic: m}
"""


def test_all_mistakes_are_told_in_one_go_each_with_its_line():
    with pytest.raises(PipelineMistakes) as caught:
        parse(EVERYTHING_WRONG)
    assert list(caught.value.lines) == [
        "p.yml:5: stage 1 (load): is 'events'; a mapping such as {from: events, topic: visits} is expected",
        "p.yml:6: stage 2 (load): partitions is 'many'; a whole number from 1 is expected",
        "p.yml:6: stage 2 (load): compression is 'brotli'; none, gzip, snappy, lz4 or zstd is possible",
        "p.yml:6: stage 2 (load): sort is 'yes'; true or false is expected",
        "p.yml:7: stage 3 (transform): read is ['v']; a mapping from views to topics is expected",
        "p.yml:7: stage 3 (transform): sql is 5; a query, or the name of a .sql file is expected",
        "p.yml:11: stage 4 (transform): to, key is for topics, and this is a Parquet directory",
        "p.yml:12: stage 4 (transform): stream is 'no'; true or false is expected",
        "p.yml:13: stage 5 (transform): watermark, w is no view; there are v",
        "p.yml:14: stage 6 (export): by is 'week'; hour, date or none is possible",
        "p.yml:14: stage 6 (export): format is 'iceberg'; parquet or delta is possible",
        "p.yml:14: stage 6 (export): to is lake, where stage 4 writes already; name another place",
        "p.yml:15: stage 7 (export): to is lake, where stage 4 writes already; name another place",
        "p.yml:16: stage 8 (export): topic stands there twice",
        "p.yml:16: stage 8 (export): to is ./lake, where stage 4 writes already; name another place",
        "p.yml:18: stage 10 (export): to is 5; a text is expected",
        "p.yml:18: stage 10 (export): partitions is unknown",
        "p.yml:19: stage 11: one kind of stage is expected, such as load: {...}",
        "p.yml:20: stage 12 (transform): read, my-view is 'my-view'; the name of a view, of letters, digits and _, is expected",
        'p.yml:20: stage 12 (transform): read, my-view is \'t\'; a mapping such as {topic: visits, schema: "user string"} is expected',
        "p.yml:20: stage 12 (transform): read, 1 is 1; the name of a view, of letters, digits and _, is expected",
        "p.yml:20: stage 12 (transform): read, 1, topic is 't/u'; a topic's name holds only letters, digits, '.', '_' and '-'",
        "p.yml:20: stage 12 (transform): to is 'x'; {parquet: DIRECTORY} or {topic: NAME} is expected",
        "p.yml:20: stage 12 (transform): to either parquet or topic is expected",
        "p.yml:20: stage 12 (transform): to, topic is 'a b'; a topic's name holds only letters, digits, '.', '_' and '-'",
        "p.yml:20: stage 12 (transform): to either parquet or topic is expected",
        "p.yml:20: stage 12 (transform): to, key is for topics, and this is a Parquet directory",
        "p.yml:21: stage 13 (load): topic is '.'; a topic's name cannot be '.' or '..'",
        "p.yml:21: stage 13 (load): name is 'a=b'; a text without = is expected",
        "p.yml:23: stage 15 (load): is called 'load more to m', as stage 14 is; give each a name of its own, such as "
        "load: {name: load 15, ...}: what is kept of a stage goes by it",
    ]


REPLACING_DIRECTORIES = """
name: p
data: lake/data
stages:
  - load: {from: events, topic: t}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{parquet: .}, {parquet: lake}, {parquet: events}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{parquet: out}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, stream: true, to: [{parquet: stream}]}
  - export: {topic: t, to: out/t}
  - export: {topic: t, to: lake/data}
  - export: {topic: t, to: stream/t}
"""


def test_directory_that_is_replaced_holds_nothing_else():
    with pytest.raises(PipelineMistakes) as caught:
        parse(REPLACING_DIRECTORIES.replace("{parquet: .}, ", ""))
    assert list(caught.value.lines) == [
        "p.yml:6: stage 2 (transform): to, parquet is lake, where the log is; name another place",
        "p.yml:6: stage 2 (transform): to, parquet is events, where what stage 1 loads is; name another place",
        "p.yml:9: stage 5 (export): to is out/t, in a directory that stage 3 replaces as a whole; name another place",
        "p.yml:10: stage 6 (export): to is lake/data, where the log is; name another place",
        "p.yml:10: stage 6 (export): to is lake/data, in a directory that stage 2 replaces as a whole; name another place",
    ]
    with pytest.raises(PipelineMistakes, match=r"parquet is \., where the pipeline's own state is; name another place"):
        parse(REPLACING_DIRECTORIES)


UNDOING_EACH_OTHER = """
name: p
data: data
stages:
  - load: {from: events, topic: t}
  - export: {topic: t, to: lake}
  - export: {topic: u, to: /base/lake}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{topic: u}, {topic: u, key: a}]}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{topic: t}, {topic: w}], mode: replace}
  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: q, to: [{topic: w, mode: append}, {topic: x, mode: replace}]}
"""


def test_outputs_that_would_undo_each_other_are_refused():
    with pytest.raises(PipelineMistakes) as caught:
        parse_pipeline(UNDOING_EACH_OTHER, "/base", "p.yml", Disk())
    assert list(caught.value.lines) == [
        "p.yml:7: stage 3 (export): to is /base/lake, where stage 2 writes already; name another place",
        "p.yml:8: stage 4 (transform): to, topic is u, as in another output of this stage; name another topic",
        "p.yml:9: stage 5 (transform): to mode replace would delete from t what stage 1 writes there; name another topic",
        "p.yml:9: stage 5 (transform): to mode replace would delete from w what stage 6 writes there; name another topic",
    ]


@pytest.mark.parametrize("text", ["", "5", "[a]", "name: p\ndata: d\nstages: load", "name: 1\ndata: [d]\nstages: []", "stages: [null]"])
def test_file_of_another_shape_is_a_sentence(text):
    with pytest.raises(InvalidArgument, match=r"^p\.yml:"):
        parse(text)


@pytest.mark.parametrize("text", [GOOD, (Path(__file__).parents[3] / "examples/page_visits/pipeline.yml").read_text()])
def test_schema_for_editors_takes_what_is_right_and_refuses_what_is_wrong(text):
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    content = yaml.safe_load(text)
    assert list(validator.iter_errors(content)) == []
    for stage in content["stages"]:
        ((kind, settings),) = stage.items()
        for wrong in ({**(settings or {}), "nonsense": 1}, "text", [1]):
            stages = [{kind: wrong}]
            assert not validator.is_valid({**content, "stages": stages})
            assert list(mistakes({**content, "stages": stages}))


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
        f"3 report: report to {tmp_path}/report.html",
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
    state.note_loaded("load events to t", {"a.json": 1})
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
