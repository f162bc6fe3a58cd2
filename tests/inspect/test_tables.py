"""Logs as Arrow tables."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import milepost.inspect as tables
from milepost.errors import CorruptRecord, InvalidArgument, KafkaStorage
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_partitions
from tests.inspect.logs import TIME, batch, log_of, partition

PARTITIONS = [
    (case, name) for case, name in all_partitions("page_visits", "transactions", "compaction", "edges", "old_formats", "codecs", "articles")
]


@pytest.mark.parametrize(("case", "name"), PARTITIONS, ids=[f"{case}/{name}" for case, name in PARTITIONS])
def test_tables_of_golden_logs_have_the_rows_that_kafka_read(golden: Golden, case: str, name: str) -> None:
    path, expected = str(golden.partition(case, name)), golden.expected(case, name)
    batches, records = tables.batches(path), tables.records(path)
    rows = [row for segment in expected["segments"] for row in segment["batches"]]
    assert batches["last_offset"].to_pylist() == [row[1] for row in rows]
    assert batches["position"].to_pylist() == [row[11] for row in rows]
    assert batches["crc"].to_pylist() == [row[17] for row in rows]
    assert records["offset"].to_pylist() == [row[0] for segment in expected["segments"] for row in segment["records"]]
    segments = tables.segments(path).to_pylist()
    assert [(row["base_offset"], row["batches"], row["records"]) for row in segments] == [
        (segment["baseOffset"], len(segment["batches"]), len(segment["records"])) for segment in expected["segments"]
    ]
    entries = tables.index_entries(path).to_pylist()
    assert [[row["offset"], row["position"]] for row in entries if row["index"] == "offset"] == [
        entry for segment in expected["segments"] for entry in segment.get("index", [])
    ]


def test_keys_values_and_headers_are_bytes_and_nulls(tmp_path: Path) -> None:
    records = [Record(0, -1, None, b"", (("h", None), ("\udcff", b"x"))), Record(1, TIME, b"\xff", None)]
    directory = partition(tmp_path, (0, [build_batch(records)]))
    first, second = tables.records(str(directory)).to_pylist()
    assert (first["timestamp"], first["key"], first["value"]) == (None, None, b"")
    assert first["headers"] == [{"key": "h", "value": None}, {"key": "�", "value": b"x"}]
    assert second["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (second["key"], second["value"], second["headers"]) == (b"\xff", None, [])


def test_a_data_directory_has_the_rows_of_all_partitions(golden: Golden) -> None:
    segments = tables.segments(str(golden("page_visits/kafka-3.9.1") / "logdir"))
    assert sorted(set(segments["partition"].to_pylist())) == [f"page_visits-{number}" for number in range(5)]


def test_one_segment_can_be_named(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0)]), (2, [batch(2)]))
    assert tables.records(str(log_of(directory, 2)))["offset"].to_pylist() == [2, 3]


def test_an_empty_partition_gives_empty_tables_with_their_columns(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert tables.batches(str(tmp_path / "t-0")).num_rows == 0
    assert "max_timestamp" in tables.batches(str(tmp_path / "t-0")).column_names


def test_damage_in_the_middle_is_refused_unless_it_may_be_skipped(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), b"\xee" * 40, batch(2), batch(4)[:50]]))
    with pytest.raises(CorruptRecord, match=r"bytes 83 to 123 are no valid batch .* skip_damaged=True"):
        tables.records(str(directory))
    assert tables.records(str(directory), skip_damaged=True)["offset"].to_pylist() == [0, 1, 2, 3]
    assert tables.batches(str(directory)).num_rows == 2


def test_a_file_that_makes_no_table_is_refused(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    with pytest.raises(InvalidArgument, match=r"a table is made of a \.log"):
        tables.batches(str(directory / "leader-epoch-checkpoint"))
    with pytest.raises(KafkaStorage, match="no such file"):
        tables.batches(str(directory / "nothing"))


def test_without_pyarrow_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = partition(tmp_path, (0, [batch(0)]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidArgument, match=r"pip install 'milepost\[arrow\]'"):
        tables.segments(str(directory))
