"""`milepost config show`: values and where they come from."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import run


def test_defaults_are_shown_with_their_source() -> None:
    lines = run("config", "show").lines
    assert "log.segment.bytes=1073741824  (default)" in lines
    assert "log.dirs=  (default)" in lines
    assert "log.cleaner.enable=true  (default)" in lines


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# ours\nlog.segment.bytes=100\nlog.roll.ms=2\nlog.index.interval.bytes=512\n")
    env = {"KAFKA_LOG_SEGMENT_BYTES": "200", "KAFKA_LOG_ROLL_MS": "300"}
    ran = run("config", "show", "--changed", "--config", file, "-X", "log.segment.bytes=4096", env=env)
    assert ran.lines == [
        f"log.index.interval.bytes=512  ({file}, line 4)",
        "log.roll.ms=300  (KAFKA_LOG_ROLL_MS)",
        "log.segment.bytes=4096  (-X log.segment.bytes)",
    ]


def test_topic_properties_are_a_list_of_their_own() -> None:
    lines = run("config", "show", "--topic", "--changed", "-X", "cleanup.policy=compact,delete").lines
    assert lines == ["cleanup.policy=compact,delete  (-X cleanup.policy)"]


def test_json() -> None:
    [line] = run("config", "show", "--json", "--changed", "-X", "log.dirs=a,b").lines
    assert json.loads(line) == {"name": "log.dirs", "value": ["a", "b"], "source": "flag", "place": "-X log.dirs"}


def test_a_property_of_another_program_is_a_warning_and_a_mistyped_flag_an_error(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("kafka.csv.metrics.dir=csv\n")
    ran = run("config", "show", "--config", file)
    assert ran.code == 0
    assert ran.errors[0].startswith(f"milepost: {file}, line 1: kafka.csv.metrics.dir is not a broker property milepost knows")
    assert run("config", "show", "-X", "log.segmentbytes=1").code == 2
    assert run("config", "show", "-X", "nonsense").code == 2


def test_a_file_that_is_not_there_ends_with_3(tmp_path: Path) -> None:
    ran = run("config", "show", "--config", tmp_path / "no.properties")
    assert (ran.code, ran.errors) == (3, [f"milepost: {tmp_path}/no.properties: No such file or directory"])
