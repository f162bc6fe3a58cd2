"""`milepost pipeline …`: what the jobs are told, what they print, how they end. The tasks run in this process: no JVM."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from milepost.cli.pipeline_jobs.job import plain_errors
from milepost.cli.terminal.output import Sentence
from milepost.files import Disk
from milepost.log.directory.directory_lock import DirectoryLock
from tests.cli.running import Ran, run
from tests.golden_fixture import Golden
from tests.spark.jobs.in_process import here
from tests.spark.logs import NOW, many_batches, plain_scan, write_log

__all__ = ["here"]


@pytest.fixture(autouse=True)
def nothing_of_spark(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("milepost.spark.spark_session"), "session", lambda *arguments: None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_log(tmp_path / "data", "t", 0, list(many_batches(20)), segment_bytes=2048)
    return tmp_path / "data"


def job(tmp_path: Path, name: str, *arguments: object) -> Ran:
    return run("pipeline", name, *arguments, "--evidence", tmp_path / "evidence")


def test_verify_prints_a_summary_and_where_its_evidence_is(data: Path, tmp_path: Path) -> None:
    ran = job(tmp_path, "verify", data)
    assert ran.code == 0
    assert ran.lines[0].startswith("verify: done: 1 partition, ")
    assert ran.lines[1].startswith(f"evidence: {tmp_path}/evidence/verify-")


def test_verify_prints_findings_and_ends_with_1(golden: Golden, tmp_path: Path) -> None:
    directory = golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0")
    ran = job(tmp_path, "verify", directory)
    assert ran.code == 1
    assert ran.lines[0].startswith(f"{directory}/00000000000000000094.log, position 1144: bytes 1144 to 1354 are no valid batch")
    assert [json.loads(line)["type"] for line in job(tmp_path, "verify", "--json", directory).lines] == [
        "finding",
        "note",
        "note",
        "summary",
    ]


def test_stats_prints_three_tables(data: Path, tmp_path: Path) -> None:
    ran = job(tmp_path, "stats", data)
    assert ran.code == 0
    assert ran.lines[0].split()[:5] == ["partition", "start", "end", "batches", "records"]
    assert ran.lines[1].split()[:5] == ["t-0", "0", "60", "20", "60"]
    assert "none" in ran.lines[4]
    assert ran.lines[7].split() == ["t", "2023-11-14", "22:00", "60", ran.lines[7].split()[-1]]


def test_export_takes_up_where_it_ended(data: Path, tmp_path: Path) -> None:
    arguments = ("t", tmp_path / "out", "--path", data, "--json")
    first, second = (json.loads(job(tmp_path, "export", *arguments).lines[-1]) for _ in range(2))
    assert (first["outcome"], first["counts"]["records"]) == ("done", 60)
    assert (second["outcome"], second["counts"]["records"]) == ("nothing to do", 0)


def test_backfill_by_time(data: Path, tmp_path: Path) -> None:
    ran = job(tmp_path, "backfill", "t", "again", "--path", data, "--into", tmp_path / "into", "--time-from", f"{NOW + 50}ms")
    assert ran.code == 0
    assert [row["timestamp"] - NOW for row in plain_scan(tmp_path / "into" / "again-0").rows] == list(range(50, 60))


def test_reindex_rebuilds_what_is_missing(data: Path, tmp_path: Path) -> None:
    victim = next((data / "t-0").glob("*.index"))
    victim.unlink()
    ran = job(tmp_path, "reindex", data, "-X", "index.interval.bytes=512")
    assert ran.code == 0
    assert victim.exists()


def test_a_directory_that_is_in_use_is_refused_with_3_and_the_pid(data: Path, tmp_path: Path) -> None:
    lock = DirectoryLock(str(data), Disk())
    ran = job(tmp_path, "reindex", data)
    lock.release()
    assert ran.code == 3
    assert "pid" in ran.errors[0]


@pytest.mark.parametrize("name", ["export", "backfill"])
def test_one_source_is_needed_and_not_two(name: str, tmp_path: Path) -> None:
    more = ("--into", tmp_path) if name == "backfill" else ()
    assert job(tmp_path, name, "t", "x", *more).code == 2
    assert job(tmp_path, name, "t", "x", *more, "--path", tmp_path, "--bootstrap-server", "localhost:9092").code == 2


def test_a_topic_that_is_not_there_is_2(data: Path, tmp_path: Path) -> None:
    ran = job(tmp_path, "export", "missing", tmp_path / "out", "--path", data)
    assert (ran.code, ran.errors) == (2, [f"milepost: there is no topic missing in {data}; topics there: t"])


class PythonException(Exception):
    """As Spark raises it."""

    __module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "sentence", "code"),
    [
        ("[NO_SUCH_TABLE] what\nat java.lang\n", "Spark: [NO_SUCH_TABLE] what", 3),
        ("thrown:\nTraceback:\n  File x\nmilepost.errors.InvalidArgument: no topic u\n\nat java", "no topic u", 2),
        ("thrown:\nmilepost.errors.DirectoryLocked: d: process 7 has it open\n", "d: process 7 has it open", 3),
        ("thrown:\n  File x\nZeroDivisionError: division by zero\nat java", "Spark: ZeroDivisionError: division by zero", 3),
    ],
)
def test_an_error_of_spark_becomes_one_sentence(text: str, sentence: str, code: int) -> None:
    with pytest.raises(Sentence) as caught, plain_errors():
        raise PythonException(text)
    assert (caught.value.message, caught.value.exit_code) == (sentence, code)
