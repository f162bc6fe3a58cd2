"""A pipeline file that changes between two runs: each stage goes on with its own state, begins anew, or is refused with what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk
from milepost.spark.pipeline.continuing import settle
from milepost.spark.pipeline.definition import Pipeline, read_pipeline
from milepost.spark.pipeline.run import plan, run
from milepost.spark.pipeline.state import PipelineState
from milepost.spark.pipeline.written import write_once
from tests.spark.logs import Batch, write_log
from tests.spark.rows import read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD = 'load: {from: events, topic: visits, schema: "user string", key: user}'
READ = 'read: {v: {topic: visits, schema: "user string"}}'
STREAM = f"transform: {{{READ}, stream: true, sql: SELECT user FROM v, to: [{{topic: seen}}]}}"
BATCH = f"transform: {{{READ}, sql: SELECT COUNT(*) AS n FROM v, to: [{{topic: counted}}]}}"
NAMED_LOAD, NAMED_STREAM = LOAD.replace("{from", "{name: in, from"), STREAM.replace("{read", "{name: watch, read")
NAMES = {LOAD: "load events to visits", STREAM: "transform visits to seen", BATCH: "transform visits to counted"}


def pipeline_of(place: Path, *stages: str) -> Pipeline:
    (place / "p.yml").write_text("name: p\ndata: data\nwork: work\nstages:\n" + "".join(f"  - {stage}\n" for stage in stages))
    return read_pipeline(str(place / "p.yml"))


def ran(place: Path, *stages: str) -> Pipeline:
    """What a run leaves behind, without Spark."""
    (place / "events").mkdir(exist_ok=True)
    pipeline = pipeline_of(place, *stages)
    state = settled(pipeline)
    state.begin(pipeline.digest)
    for stage in pipeline.stages:
        if stage.kind == "load":
            state.note_loaded(stage.name, {"a.json": 1})
        if stage.identity.is_stream:
            checkpoint = (
                place / "work" / "checkpoints" / f"{state.key(stage.name)}.{state.output(stage.name, 'topic seen')['suffix']}"
            )
            (checkpoint / "offsets").mkdir(parents=True)
        state.note(stage.name, is_done=True)
    state.end()
    return pipeline


def settled(pipeline: Pipeline, **given: Any) -> PipelineState:
    state = PipelineState(pipeline.work, Disk())
    settle(pipeline, state, Disk(), **given)
    return state


def keys(state: PipelineState, *stages: str) -> list[str]:
    return [state.key(NAMES.get(stage, stage)) for stage in stages]


def test_inserted_and_moved_stages_leave_the_others_their_state(tmp_path: Path) -> None:
    before = keys(settled(ran(tmp_path, LOAD, STREAM)), LOAD, STREAM)
    assert len(set(before)) == 2
    other = STREAM.replace("seen", "seen_too")
    state = settled(pipeline_of(tmp_path, other, STREAM, "verify: {}", LOAD))
    assert keys(state, LOAD, STREAM) == before
    assert state.loaded == {NAMES[LOAD]: {"a.json": 1}}
    assert state.key("transform visits to seen_too") not in before


def test_stage_that_is_given_a_name_is_recognised(tmp_path: Path) -> None:
    before = keys(settled(ran(tmp_path, LOAD, STREAM)), LOAD, STREAM)
    pipeline = pipeline_of(tmp_path, NAMED_LOAD, NAMED_STREAM)
    state = settled(pipeline)
    assert keys(state, "in", "watch") == before
    assert state.loaded == {"in": {"a.json": 1}}
    assert list(plan(pipeline))[:2] == [
        "1 load: goes on as 'in', and was called 'load events to visits'",
        "2 transform: goes on as 'watch', and was called 'transform visits to seen'",
    ]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            LOAD,
            LOAD.replace("visits", "hits"),
            r"'load events to hits' is new, .* 'load events to visits', which is gone .* files events too",
        ),
        (STREAM, STREAM.replace("seen", "other"), r"'transform visits to other' is new, .* gone from the file and had topic visits too"),
        (NAMED_LOAD, NAMED_LOAD.replace("from: events", "from: more"), "it read files events, and reads files more now"),
        (NAMED_STREAM, NAMED_STREAM.replace("stream: true, ", ""), "it was a stream, and is a batch now"),
        (NAMED_LOAD, STREAM.replace("{read", "{name: in, read"), "it was a load stage"),
    ],
)  # fmt: skip
def test_change_that_cannot_be_continued_is_refused_until_it_is_said_what_is_meant(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    (old,) = keys(settled(ran(tmp_path, before)), ran_name(tmp_path))
    saved = (tmp_path / "work" / "pipeline.json").read_bytes()
    pipeline = pipeline_of(tmp_path, after)
    name = pipeline.stages[0].name
    with pytest.raises(InvalidArgument, match=sentence) as refused:
        settled(pipeline)
    assert "--restart" in str(refused.value)
    assert "--adopt" in str(refused.value)
    assert (tmp_path / "work" / "pipeline.json").read_bytes() == saved
    assert keys(settled(pipeline, restart=[name]), name) != [old]
    assert keys(settled(pipeline, adopt=[ran_name(tmp_path)]), name) == [old]


def ran_name(place: Path) -> str:
    """The one stage that was run."""
    (name,) = json.loads((place / "work" / "pipeline.json").read_bytes())["known"]
    return str(name)


def test_another_query_goes_on_unless_spark_keeps_groups_of_the_old_one(tmp_path: Path) -> None:
    before = keys(settled(ran(tmp_path, STREAM)), STREAM)
    after = pipeline_of(tmp_path, STREAM.replace("SELECT user", "SELECT UPPER(user) AS user"))
    assert keys(settled(after), STREAM) == before
    (checkpoint,) = (tmp_path / "work" / "checkpoints").iterdir()
    (checkpoint / "state").mkdir()
    with pytest.raises(InvalidArgument, match="its query is another one, and Spark keeps groups of the old one; --restart"):
        settled(after)


def test_what_is_adopted_must_be_clear(tmp_path: Path) -> None:
    ran(tmp_path, LOAD)
    pipeline = pipeline_of(tmp_path, LOAD.replace("visits", "a"), LOAD.replace("visits", "b"))
    with pytest.raises(InvalidArgument, match="nothing is kept of 'nobody'"):
        settled(pipeline, adopt=["nobody"])
    with pytest.raises(InvalidArgument, match=r"which stage goes on with it\? --adopt STAGE='load events to visits'"):
        settled(pipeline, adopt=[NAMES[LOAD]])
    state = settled(pipeline, adopt=[f"load events to b={NAMES[LOAD]}"], restart=["load events to a"])
    assert state.loaded == {"load events to b": {"a.json": 1}}
    with pytest.raises(InvalidArgument, match=r"'laod' is no stage of p; is load .* meant|'laod' is no stage of p; there are"):
        settled(pipeline, restart=["laod"])


# What a batch transform has written, and what makes it write again.


def test_rows_are_written_again_only_for_what_changed(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, LOAD, BATCH)
    state = settled(pipeline)

    def written(pipeline: Pipeline, number: int) -> bool:
        state.run += 1
        stage = pipeline.stages[1]
        state.note(stage.name, ends={"visits": {"0": 7}})

        def append(commit: str) -> None:
            assert commit.endswith(f":{number}")
            write_log(tmp_path / "data", "counted", 0, [Batch((b"row",))])

        return write_once(pipeline, stage, stage.settings["to"][0], "topic counted", state, append)

    assert written(pipeline, 1)
    assert not written(pipeline, 1)
    # Whoever removes the topic wants it made anew.
    shutil.rmtree(tmp_path / "data" / "counted-0")
    assert written(pipeline, 2)
    assert not written(pipeline, 2)
    # What earlier runs have appended goes with the first run that replaces.
    replacing = pipeline_of(tmp_path, LOAD, BATCH.replace("counted}", "counted, mode: replace}"))
    assert written(replacing, 3)
    assert [row["offset"] for row in read_rows({"path": tmp_path / "data", "subscribe": "counted"})] == [1]
    assert not written(replacing, 3)
    assert not written(pipeline, 3)


# State of the first version, by numbers.


def old_state(place: Path, definition: str, **values: Any) -> None:
    (place / "work" / "checkpoints" / "2.0" / "offsets").mkdir(parents=True)
    (place / "events").mkdir()
    content = {
        "version": 1, "id": "6f1c00112233", "run": 4, "is_finished": True, "definition": definition,
        "loaded": {"1 load": {"a.json": 1}},
        "stages": {
            "1 load": {"run": 4, "files": {}, "is_done": True},
            "2 transform": {"run": 4, "ends": {"visits": {"0": 7}}, "is_done": True},
            "3 transform": {"run": 4, "ends": {"visits": {"0": 7}}, "is_done": True},
        },
        **values,
    }  # fmt: skip
    (place / "work" / "pipeline.json").write_text(json.dumps(content))


def test_state_by_numbers_is_taken_over(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, LOAD, STREAM, BATCH)
    old_state(tmp_path, pipeline.digest)
    state = settled(pipeline)
    assert keys(state, LOAD, STREAM, BATCH) == ["1", "2", "3"]
    assert state.output(NAMES[STREAM], "topic seen")["suffix"] == "0"
    assert state.loaded == {NAMES[LOAD]: {"a.json": 1}}
    counted = state.output(NAMES[BATCH], "topic counted")
    assert (counted["number"], counted["is_written"]) == (4, True)
    state.save()
    # From here on by names.
    assert keys(settled(pipeline_of(tmp_path, "verify: {}", LOAD, BATCH, STREAM)), LOAD, STREAM, BATCH) == ["1", "2", "3"]


def test_state_by_numbers_of_another_file_is_not_guessed(tmp_path: Path) -> None:
    old_state(tmp_path, "of another file")
    pipeline = pipeline_of(tmp_path, "verify: {}", LOAD, STREAM)
    with pytest.raises(InvalidArgument, match=r"'load events to visits' is new, .* kept by an older milepost for stage 1 load"):
        settled(pipeline)
    state = settled(pipeline, adopt=["1 load", "2 transform"])
    assert keys(state, LOAD, STREAM) == ["1", "2"]
    assert state.loaded == {NAMES[LOAD]: {"a.json": 1}}


def test_state_of_a_newer_milepost(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text('{"version": 3}')
    with pytest.raises(KafkaStorage, match="version 3, and 2 is known; run it with a newer milepost"):
        PipelineState(str(tmp_path), Disk())


# With Spark.


def records(place: Path, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row["value"]) for row in read_rows({"path": place / "data", "subscribe": topic})]


def test_runs_before_and_after_a_stage_was_inserted_write_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text("".join(json.dumps({"user": f"u{n}"}) + "\n" for n in range(143)))
    other = STREAM.replace("seen", "seen_too")
    replaced = BATCH.replace("topic: counted", "topic: latest_count, mode: replace")
    appended = BATCH.replace("topic: counted", "topic: each_count, mode: append")
    run(spark, pipeline_of(tmp_path, LOAD, STREAM, BATCH, replaced, appended))
    done = run(spark, pipeline_of(tmp_path, LOAD, other, "verify: {}", STREAM, BATCH, replaced, appended))
    assert [len(records(tmp_path, topic)) for topic in ("visits", "seen", "seen_too")] == [143, 143, 143]
    assert records(tmp_path, "counted") == [{"n": 143}]
    assert records(tmp_path, "each_count") == [{"n": 143}, {"n": 143}]
    assert done.stages[4].summary == "topic counted has these rows: nothing it is made of has changed"
    (tmp_path / "events" / "b.json").write_text('{"user": "late"}\n')
    run(spark, pipeline_of(tmp_path, LOAD, STREAM, BATCH, replaced))
    assert len(records(tmp_path, "seen")) == 144
    assert records(tmp_path, "counted") == [{"n": 143}, {"n": 144}]
    assert records(tmp_path, "latest_count") == [{"n": 144}]
