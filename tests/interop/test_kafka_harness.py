"""The harness itself, shown on data that real Kafka wrote: its dump tool finds nothing wrong there, and finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_fixture import Golden, index
from tests.interop.kafka_harness import dump_log_segments

pytestmark = pytest.mark.kafka

CASES = ["articles/kafka-3.9.1", "edges/kafka-3.9.1", "codecs/kafka-4.3.0", "transactions/kafka-3.9.1"]


def test_the_dump_tool_reads_golden_files_without_complaint(golden: Golden) -> None:
    partitions = [(case, name) for case in CASES for name in index()[case]["partitions"]]
    files = [path for case, name in partitions for path in sorted(golden.partition(case, name).glob("0*"))]
    stdout, stderr = dump_log_segments(files, "--deep-iteration", "--print-data-log")
    assert stderr == ""
    assert "isvalid: false" not in stdout
    segments = [segment for case, name in partitions for segment in golden.expected(case, name)["segments"]]
    assert stdout.count("\n| offset: ") == sum(len(segment["records"]) for segment in segments)
    assert stdout.count("\nbaseOffset: ") == sum(len(segment["batches"]) for segment in segments)


def test_the_dump_tool_finds_an_index_entry_that_points_to_the_wrong_batch(golden: Golden, tmp_path: Path) -> None:
    case = "articles/kafka-3.9.1"
    directory = golden.partition(case, index()[case]["partitions"][0], tmp_path)
    damaged = max(directory.glob("*.index"), key=lambda path: path.stat().st_size)
    entries = bytearray(damaged.read_bytes())
    entries[3] += 1
    damaged.write_bytes(entries)
    _, stderr = dump_log_segments([damaged], "--verify-index-only")
    assert f"Mismatches in :{damaged}" in stderr
