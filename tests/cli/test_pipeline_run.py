"""`milepost pipeline run FILE`: the plan, what is wrong with a file, and a machine without Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import run

PIPELINE = """
name: p
data: data
stages:
  - load: {from: events, topic: t}
  - export: {topic: t, to: out}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    (tmp_path / "p.yml").write_text(PIPELINE)
    return tmp_path / "p.yml"


def test_dry_run_prints_the_plan_and_does_nothing(file: Path, tmp_path: Path) -> None:
    ran = run("pipeline", "run", file, "--dry-run")
    expected = [
        f"1 load: 0 new json files in {tmp_path}/events to topic t in {tmp_path}/data",
        f"2 export: what is new of t (not there yet) to {tmp_path}/out by hour",
    ]
    assert (ran.code, ran.lines) == (0, expected)
    as_json = run("pipeline", "run", file, "--dry-run", "--json")
    assert [json.loads(line) for line in as_json.lines] == [{"type": "plan", "what": line} for line in expected]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "p.yml"]


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]])
def test_mistakes_in_the_file_are_a_sentence_each(file: Path, arguments: list[str]) -> None:
    file.write_text(PIPELINE.replace("export", "exprot").replace("topic: t}", "topic: t, partitions: many}", 1))
    ran = run("pipeline", "run", file, *arguments)
    assert ran.code == 2
    kinds = "load, verify, transform, export, stats, report"
    assert ran.errors == [
        f"milepost: {file}:5: stage 1 (load): partitions is 'many'; a whole number from 1 is expected",
        f"milepost: {file}:6: stage 2: exprot is no stage; is export meant?; there are {kinds}",
    ]


def test_schema_for_editors_is_printed() -> None:
    ran = run("pipeline", "schema")
    assert ran.code == 0
    assert json.loads("\n".join(ran.lines))["required"] == ["name", "data", "stages"]


TRANSFORM = '  - transform: {read: {v: {topic: t, schema: "a int"}}, sql: SELECT a FROM v, to: [{parquet: rows}]}\n'


def test_dry_run_without_java_says_that_queries_were_not_checked(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(PIPELINE + TRANSFORM)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    ran = run("pipeline", "run", file, "--dry-run")
    assert (ran.code, len(ran.lines)) == (0, 4)
    assert ran.lines[0].startswith("schemas and queries were not checked: Spark needs Java 17 or newer")


def test_without_java_it_says_what_to_install(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    ran = run("pipeline", "run", file)
    assert ran.code == 2
    assert " ".join(ran.errors) == (
        f"milepost: Spark needs Java 17 or newer, and JAVA_HOME is {tmp_path}/nothing, and there is no bin/java in it; "
        "install it (Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME if it is not on the PATH"
    )
