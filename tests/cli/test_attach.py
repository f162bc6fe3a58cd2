"""`milepost attach` as a program: what it prints, what it refuses, how it stops, and that it leaves everything as it was."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import milepost
from milepost.cli.main import main
from milepost.record.records import Record
from tests.broker.attaching import fingerprint
from tests.broker.test_serve import COMMAND, Served, serving
from tests.golden_fixture import Golden

ATTACH = [*COMMAND[:-1], "attach"]


@contextmanager
def attaching(*directories: Path, arguments: tuple[str, ...] = ()) -> Iterator[Served]:
    command = [*ATTACH, "--port", "0", *map(str, directories), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Served(process)
        finally:
            if process.poll() is None:
                process.kill()


def refused(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*ATTACH, *arguments], capture_output=True, text=True, timeout=180, check=False)
    return done.returncode, done.stdout, done.stderr


def milepost_says(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_it_says_what_it_found_and_last_that_it_is_ready(golden: Golden) -> None:
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    before = fingerprint(logdir)
    with attaching(logdir) as served:
        assert served.lines == [
            f"data directory   {logdir}",
            "topic            page_visits: 5 partitions, 1221 offsets",
            "checksums        not checked, the logs were closed cleanly; milepost verify checks them",
            f"for a client     bootstrap.servers={served.address}",
            f"ready {served.address}",
        ]
        assert served.address.startswith("127.0.0.1:")
        lines = milepost_says(
            "consume", "page_visits", "--from-beginning", "--max-messages", "1221", "--bootstrap-server", served.address
        )
        assert len(lines.splitlines()) == 1221
        assert served.stop() == (0, "", "")
    assert fingerprint(logdir) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_it_without_a_word(golden: Golden, number: int) -> None:
    with attaching(golden("page_visits/kafka-4.3.0") / "logdir") as served:
        assert served.stop(number) == (0, "", "")


def test_what_was_recovered_and_what_cannot_be_read_is_told(golden: Golden) -> None:
    logdir = golden("unclean/kafka-3.9.1-badcrc-before") / "logdir"
    with attaching(logdir) as served:
        assert served.lines[1:-2] == [
            "topic            crash: 1 partition, 141 offsets",
            "in memory        crash-0 was not closed cleanly: 2 of its 4 segments were read through",
            "note             crash-0: offsets 115 to 118 are damaged; reading them is an error, 119 is the next that can be read",
            "note             crash-0: a transaction is open since offset 94; "
            "consumers with read_committed stop there, before the end at 141",
            "checksums        checked in 2 of 4 segments; milepost verify checks all",
        ]
        result = CliRunner().invoke(
            main, ["consume", "crash", "--offset", "100", "--timeout", "60", "--bootstrap-server", served.address]
        )
        assert result.exit_code == 4
        assert "fetch of crash-0 at offset 115: the broker answers CORRUPT_MESSAGE (2)" in result.output
        count = 141 - 119
        behind = ("consume", "crash", "--offset", "119", "--max-messages", str(count), "--bootstrap-server", served.address)
        assert len(milepost_says(*behind).splitlines()) == count
        assert served.stop() == (0, "", "")


def test_producer_is_told_why_nothing_is_written(golden: Golden) -> None:
    with attaching(golden("page_visits/kafka-4.3.0") / "logdir") as served:
        given = ["produce", "page_visits", "--bootstrap-server", served.address]
        told = [CliRunner().invoke(main, [*given, *more], input="x\n") for more in ((), ("--no-idempotence",))]
    assert [result.exit_code for result in told] == [4, 4]
    assert "CLUSTER_AUTHORIZATION_FAILED (31): it only reads (milepost attach), or gives you none" in told[0].output
    assert "TOPIC_AUTHORIZATION_FAILED (29): the directories are attached for reading" in told[1].output


def test_torn_tail_and_index_that_does_not_fit_are_told(golden: Golden, tmp_path: Path) -> None:
    torn = golden("unclean/kafka-3.9.1-torn-before") / "logdir" / "crash-0"
    with attaching(torn) as served:
        assert served.lines[1:4] == [
            "topic            crash: 1 partition, 136 offsets",
            "in memory        crash-0 was not closed cleanly: 2 of its 4 segments were read through",
            f"in memory        {torn}/00000000000000000094.log: 123 bytes behind offset 135 were not a whole batch and were cut off",
        ]
        assert served.stop() == (0, "", "")
    shutil.copytree(torn, tmp_path / "crash-0")
    with attaching(tmp_path) as served:
        assert "checksums        checked in all 4 segments" in served.lines
    garbled = golden("unclean/kafka-3.9.1-clean-garbageindex-before") / "logdir" / "crash-0"
    with attaching(garbled.parent) as served:
        assert served.lines[2] == "in memory        crash-0: indexes that did not fit their log were built anew for 4 segments"
        assert served.lines[3] == (
            f"in memory        {garbled}/00000000000000000000.index: its entries run from offset -1646202890 at position 1102559620 "
            "to offset -855225304 at position 1407499951, which is not upwards"
        )
        assert served.stop() == (0, "", "")


def test_partitions_that_are_missing_are_told(golden: Golden) -> None:
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    with attaching(*(logdir / f"page_visits-{number}" for number in (1, 2, 4))) as served:
        told = "topic            page_visits: 3 partitions, 922 offsets; of its partitions 0-4 only 1-2, 4 are here"
        assert served.lines[1] == told


def test_lag_of_a_group_in_a_copy_is_shown(golden: Golden) -> None:
    with attaching(golden("groups/kafka-4.3.0") / "logdir") as served:
        rows = milepost_says("groups", "describe", "g-librdkafka", "--json", "--bootstrap-server", served.address).splitlines()
    lags = {row["partition"]: (row["committed"], row["lag"]) for row in map(json.loads, rows) if "lag" in row}
    assert lags == {0: (7, 17), 1: (8, 12), 2: (20, 0)}


def test_directory_of_a_broker_that_runs_is_served_beside_it(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        runner = CliRunner()
        produced = runner.invoke(main, ["produce", "visits", "--bootstrap-server", running.address], input="one\ntwo\n")
        assert produced.exit_code == 0
        with attaching(tmp_path) as served:
            said = milepost_says(
                "consume", "visits", "--from-beginning", "--max-messages", "2", "--bootstrap-server", served.address
            )
            assert said == "one\ntwo\n"
            assert served.stop() == (0, "", "")
        assert running.stop() == (0, "", "")


# Refused.


def test_same_partition_in_two_places_is_one_sentence_and_3(golden: Golden, tmp_path: Path) -> None:
    ours = golden("page_visits/kafka-4.3.0") / "logdir" / "page_visits-0"
    theirs = tmp_path / "backup" / "page_visits-0"
    shutil.copytree(ours, theirs)
    assert refused(str(ours), str(theirs)) == (
        3,
        "",
        f"milepost: page_visits-0 is in two places, {ours} and {theirs}; attach one of them, or both with a broker and a port each\n",
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "{path}: no such file or directory"),
        (
            "empty",
            "{path}: neither segments (such as 00000000000000000000.log) nor partition directories (such as page_visits-0) are in it",
        ),
        ("page_visits-0/00000000000000000000.log", "{path}: a file; name the partition directory it lies in, "),
    ],
)
def test_path_with_nothing_to_serve_is_one_sentence_and_3(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    with milepost.open_log(str(tmp_path / "page_visits-0"), "a") as log:
        log.append([Record(value=b"x")])
    path = tmp_path / name
    code, out, errors = refused(str(path), "--port", "0")
    assert (code, out, errors.count("\n")) == (3, "", 1)
    assert errors.startswith(f"milepost: {sentence.format(path=path)}")


def test_port_in_use_is_one_sentence_and_3(golden: Golden) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, errors = refused(str(golden("page_visits/kafka-4.3.0") / "logdir"), "--port", str(port))
    assert (code, out, errors.count("\n")) == (3, "", 1)
    assert f"127.0.0.1:{port}" in errors


@pytest.mark.parametrize("arguments", [[], ["x", "--port", "99999"], ["x", "-X", "num.partition=1"], ["x", "--frobnicate"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    code, out, errors = refused(*arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in errors
