"""`milepost dump`: options, streams, exit codes. What is in the lines is tested with milepost.inspect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.golden_fixture import Golden
from tests.inspect.logs import TIME, batch, log_of, partition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return partition(tmp_path, (0, [batch(0, 3), batch(3, 3, producer_id=7, producer_epoch=0, base_sequence=0)]), (6, [batch(6, 3)]))


def offsets(*arguments: object) -> list[int]:
    ran = run("dump", "--json", "--deep-iteration", *arguments)
    assert ran.code == 0
    return [line["offset"] for line in map(json.loads, ran.lines) if line["type"] == "record"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], list(range(9))),
        (["--offsets", "2:4"], [2, 3, 4]),
        (["--offsets", "7:"], [7, 8]),
        (["--offsets", ":1"], [0, 1]),
        (["--offsets", "5"], [5]),
        (["--offset-from", "8"], [8]),
        (["--offset-from", "1", "--offset-to", "2"], [1, 2]),
        (["--time-from", f"{TIME + 7}"], [7, 8]),
        (["--time-to", "2023-11-14T22:13:20.001Z"], [0, 1]),
        (["--time-from", "1700000000", "--time-to", "1700000000.002"], [0, 1, 2]),
        (["--key", "k4"], [4]),
        (["--producer-id", "7"], [3, 4, 5]),
        (["--producer-id", "-1", "--offset-to", "6"], [0, 1, 2, 6]),
        (["--transaction-state", "none", "--key", "k0"], [0]),
        (["--transaction-state", "aborted"], []),
    ],
)
def test_filters(directory: Path, options: list[str], expected: list[int]) -> None:
    assert offsets(directory, *options) == expected


def test_text_is_the_default_and_several_paths_follow_each_other(directory: Path) -> None:
    first, second = log_of(directory), log_of(directory, 6)
    ran = run("dump", first, second)
    assert ran.code == 0
    assert [line for line in ran.lines if not line.startswith("baseOffset")] == [
        f"Dumping {first}",
        "Log starting offset: 0",
        f"Dumping {second}",
        "Log starting offset: 6",
    ]


@pytest.mark.parametrize("flag", ["--offsets-decoder", "--transaction-log-decoder"])
def test_a_decoder_flag_prints_the_data(golden: Golden, flag: str) -> None:
    name = "__consumer_offsets-0" if flag == "--offsets-decoder" else "__transaction_state-0"
    path = golden.partition("groups/kafka-4.3.0", name) / f"{0:020d}.log"
    expected = golden.decoded_text("groups/kafka-4.3.0", name).splitlines()
    assert run("dump", flag, path).lines[1:] == expected[1:]


def test_the_decoder_can_be_turned_off(golden: Golden) -> None:
    path = golden.partition("groups/kafka-4.3.0", "__consumer_offsets-0") / f"{0:020d}.log"
    assert not any('{"type"' in line for line in run("dump", "--print-data-log", "--decoder", "string", path).lines)


def test_damage_makes_the_exit_code_1_and_a_torn_end_does_not(golden: Golden) -> None:
    assert run("dump", golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0") / f"{94:020d}.log").code == 1
    assert run("dump", golden.partition("unclean/kafka-3.9.1-torn-before", "crash-0") / f"{94:020d}.log").code == 0


def test_remarks_go_to_the_second_stream(directory: Path) -> None:
    (directory / "notes.txt").write_text("x")
    ran = run("dump", directory)
    assert ran.errors == [f"Ignoring unknown file {directory}/notes.txt"]
    assert not any("notes" in line for line in ran.lines)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--offsets", "x"], "milepost: offsets 'x': give FROM:TO, FROM:, :TO or one offset, such as 10:20"),
        (["--offsets", "1:2", "--offset-to", "3"], "milepost: --offsets stands for --offset-from and --offset-to: give the one"),
        (["--time-from", "yesterday"], "milepost: time 'yesterday' is none of"),
        (["--offset-from", "9", "--offset-to", "1"], "milepost: the offset filter runs from 9 to 1"),
    ],
)
def test_a_question_that_makes_no_sense_ends_with_2(directory: Path, options: list[str], sentence: str) -> None:
    ran = run("dump", directory, *options)
    assert ran.code == 2
    assert ran.errors[-1].startswith(sentence)


def test_every_json_line_has_a_type_and_a_file(golden: Golden) -> None:
    ran = run("dump", "--json", "--print-data-log", golden("transactions/kafka-3.9.1") / "logdir")
    found = [json.loads(line) for line in ran.lines]
    assert {"file", "batch", "record", "indexEntry", "timeIndexEntry", "abortedTransaction", "producer", "leaderEpoch", "checkpoint",
            "metaProperties", "partitionMetadata"} <= {line["type"] for line in found}  # fmt: skip
    assert all(line["file"] for line in found)
