"""`milepost explain` as a person runs it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from milepost.cli.main import main
from milepost.log.open import open_log
from tests.inspect.logs import TIME, batch


@pytest.fixture
def run():
    def invoke(*arguments):
        return CliRunner().invoke(main, ["explain", *(str(argument) for argument in arguments)])

    return invoke


@pytest.fixture
def topic_log(golden):
    return golden.partition("articles/kafka-3.9.1", "topic-log-0")


def test_offset_is_explained_in_plain_text_when_piped(run, topic_log):
    result = run(topic_log, "--offset", 23)
    assert result.exit_code == 0
    assert result.output.startswith("Where in topic-log-0 is offset 23?\n")
    assert "→ 2              22           656   the last one not past 23" in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1700000000230", "epoch milliseconds"),
        ("1700000000.23", "epoch seconds"),
        ("2023-11-14T22:13:20.230Z", "ISO 8601"),
        ("2023-11-14 22:13:20.230", "ISO 8601 without a zone, taken as UTC"),
    ],
)
def test_time_is_taken_in_three_spellings_and_the_unit_is_said(run, topic_log, text, unit):
    result = run(topic_log, "--time", text, "--json")
    document = json.loads(result.output)
    assert document["question"] == {"offset": None, "time": 1700000000230, "unit": unit, "target": 1700000000230}
    assert document["answer"] == {"offset": 23, "timestamp": 1700000000230, "segment": 0, "position": 838, "leader_epoch": 0}


def test_json_document_has_its_documented_names(run, topic_log):
    document = json.loads(run(topic_log, "--offset", 23, "--json").output)
    assert list(document) == [
        "directory",
        "log",
        "question",
        "steps",
        "answer",
        "conclusion",
        "why_not",
        "damage",
        "rebuilt",
    ]
    assert document["log"] == {"start_offset": 0, "end_offset": 32, "segments": 1, "bytes": 1240, "bytes_left_out": 0}
    assert document["question"] == {"offset": 23, "time": None, "unit": None, "target": 23}
    assert document["why_not"][3] == {
        "candidate": "offset entry after",
        "reason": "its batch ends at 26, past 23, and might begin past it too",
        "offset": 26,
        "position": 838,
        "slot": 3,
    }
    assert document["why_not"][0] == {
        "candidate": "record before",
        "reason": "its offset is below 23",
        "offset": 22,
        "timestamp": 1700000000220,
        "segment": 0,
        "position": 656,
    }


def test_lookup_without_an_answer_is_no_failure(run, topic_log):
    result = run(topic_log, "--offset", 32, "--json")
    assert (result.exit_code, json.loads(result.output)["answer"]) == (0, None)


@pytest.mark.parametrize("arguments", [(), ("--offset", 1, "--time", "2023-11-14")])
def test_neither_or_both_questions_are_wrong_usage(run, topic_log, arguments):
    result = run(topic_log, *arguments)
    assert result.exit_code == 2
    assert "give --offset N or --time T, one of the two" in result.output


def test_time_that_is_none_is_wrong_usage(run, topic_log):
    result = run(topic_log, "--time", "yesterday")
    assert result.exit_code == 2
    assert result.stderr.startswith("milepost: time 'yesterday' is none of 1526384718288 (epoch milliseconds)")


def test_property_is_passed_by_kafkas_name(run, golden):
    crashed = golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0")
    document = json.loads(run(crashed, "--offset", 112, "--json", "-X", "index.interval.bytes=256").output)
    assert document["steps"][1]["entry"] == {"offset": 110, "position": 725}


def test_unknown_property_is_named(run, topic_log):
    result = run(topic_log, "--offset", 1, "-X", "index.intervall=1")
    assert result.exit_code == 2
    assert "'index.intervall' is no topic property" in result.stderr


def test_property_without_a_value_is_wrong_usage(run, topic_log):
    result = run(topic_log, "--offset", 1, "-X", "index.interval.bytes")
    assert result.exit_code == 2
    assert "is no key=value" in result.output


def test_directory_that_is_not_there_is_one_sentence(run, tmp_path):
    result = run(tmp_path / "none-0", "--offset", 1)
    assert result.exit_code == 3
    assert result.stderr == f"milepost: {tmp_path}/none-0: no such file or directory\n"


def test_directory_is_left_as_it_was(run, golden, tmp_path):
    directory = golden.partition("unclean/kafka-3.9.1-torn-before", "crash-0", tmp_path)
    before = {path.name: path.read_bytes() for path in sorted(directory.parent.rglob("*")) if path.is_file()}
    assert run(directory, "--offset", 100).exit_code == 0
    assert {path.name: path.read_bytes() for path in sorted(directory.parent.rglob("*")) if path.is_file()} == before


def test_bytes_that_are_no_batch_are_named(run, tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"garbage!" * 625)
    result = run(directory, "--offset", 3)
    assert "5,000 bytes at the end of the log are no whole batch and are left out" in " ".join(result.stdout.split())
    assert json.loads(run(directory, "--offset", 3, "--json").stdout)["log"]["bytes_left_out"] == 5000


def test_one_look_at_one_slot_is_told_once(run, tmp_path):
    with open_log(str(tmp_path / "t-0"), "a") as log:
        log.append_as_leader(batch(0, 3))
    text = " ".join(run(tmp_path / "t-0", "--time", TIME).stdout.split())
    assert f"Probed slot 0 ({TIME + 2})." in text
    assert "1 probe in 1 page" in text
