"""Every log file that real Kafka wrote reads as Kafka's own dump tool read it: all batch fields, all records."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from milepost.record.batches import AnyBatch, iter_batches
from tests.golden_expectations import batch_row, expected_batch_rows, record_rows
from tests.golden_fixture import ARCHIVES, Golden, all_cases, all_partitions, index

PARTITIONS = list(all_partitions())
IDS = [f"{case}/{partition}" for case, partition in PARTITIONS]

# The dump tool's own words: bytes behind the last whole batch of a log whose broker was killed in the middle of a write.
TORN_TAILS = {
    ("unclean/kafka-2.4.1-torn-before", 97): 123,
    ("unclean/kafka-3.9.1-torn-before", 94): 123,
    ("unclean/kafka-4.3.0-torn-before", 148): 104,
}


def log_file(directory: Path, segment: dict[str, Any]) -> Path:
    return directory / f"{segment['baseOffset']:020d}.log"


def batches_of(path: Path) -> list[AnyBatch]:
    return list(iter_batches(path.read_bytes(), where=path.name))


@pytest.mark.parametrize(("case", "partition"), PARTITIONS, ids=IDS)
def test_every_batch_reads_as_kafka_read_it(golden: Golden, case: str, partition: str) -> None:
    directory, expected = golden.partition(case, partition), golden.expected(case, partition)
    for segment in expected["segments"]:
        rows = [batch_row(batch) for batch in batches_of(log_file(directory, segment))]
        assert rows == expected_batch_rows(expected, segment)


@pytest.mark.parametrize(("case", "partition"), PARTITIONS, ids=IDS)
def test_every_record_reads_as_kafka_read_it(golden: Golden, case: str, partition: str) -> None:
    directory, expected = golden.partition(case, partition), golden.expected(case, partition)
    for segment in expected["segments"]:
        rows = record_rows(batches_of(log_file(directory, segment)), segment["records"])
        assert rows == segment["records"]


@pytest.mark.parametrize(("case", "partition"), PARTITIONS, ids=IDS)
def test_batches_fill_the_file_but_for_a_torn_tail(golden: Golden, case: str, partition: str) -> None:
    directory, expected = golden.partition(case, partition), golden.expected(case, partition)
    for segment in expected["segments"]:
        path = log_file(directory, segment)
        unread = path.stat().st_size - sum(batch.size for batch in batches_of(path))
        assert unread == TORN_TAILS.get((case, segment["baseOffset"]), 0)


@pytest.mark.parametrize("case", all_cases())
def test_the_archive_unpacks_to_what_the_index_and_the_expectations_name(golden: Golden, case: str) -> None:
    directory = golden(case)
    assert sorted(path.name for path in (directory / "logdir").iterdir() if path.is_dir()) == index()[case]["partitions"]
    assert golden.case_json(case)["kafka"] == index()[case]["kafka"]
    for partition in index()[case]["partitions"]:
        found = {path.name: digest(path) for path in (directory / "logdir" / partition).iterdir()}
        assert found == golden.expected(case, partition)["files"]


def digest(path: Path) -> list[Any]:
    content = path.read_bytes()
    return [len(content), hashlib.sha256(content).hexdigest()[:16]]


def test_every_set_has_one_archive_and_all_of_them_stay_small() -> None:
    archives = sorted(path.name for path in ARCHIVES.glob("*.tar.xz"))
    assert archives == sorted({f"{case.split('/')[0]}.tar.xz" for case in all_cases()})
    assert sum((ARCHIVES / name).stat().st_size for name in archives) < 2_000_000


def test_a_private_copy_may_be_changed_and_the_shared_one_stays(golden: Golden, tmp_path: Path) -> None:
    case = "articles/" + next(case for case in all_cases("articles")).split("/")[1]
    partition = index()[case]["partitions"][0]
    private, shared = golden.partition(case, partition, tmp_path), golden.partition(case, partition)
    name = next(path.name for path in private.glob("*.log"))
    before = digest(shared / name)
    (private / name).write_bytes(b"changed")
    assert digest(shared / name) == before
