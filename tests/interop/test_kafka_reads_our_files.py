"""Real Kafka agrees: its dump tool finds nothing wrong in files that milepost wrote, and its broker serves every record."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.golden_fixture import Golden
from tests.interop.kafka_client import create_topics, offsets_for_times, read_topics
from tests.interop.kafka_harness import KafkaBroker, dump_log_segments
from tests.interop.written_logs import START, WrittenLog, write_all

pytestmark = pytest.mark.kafka

GOLDEN_CASE = "transactions/kafka-3.9.1"
KEPT = "partition.metadata"  # holds the topic id that the broker gave the topic


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "written"


@pytest.fixture
def written(data_dir: Path) -> dict[str, WrittenLog]:
    return write_all(data_dir)


def test_the_dump_tool_reads_every_record_and_finds_no_mismatch(data_dir: Path, written: dict[str, WrittenLog]) -> None:
    stdout, stderr = dump_log_segments(files_of(data_dir, "0*"), "--deep-iteration", "--print-data-log")
    assert without_gaps_of(data_dir / "compacted-0", stderr) == ""
    assert "isvalid: false" not in stdout
    assert "invalid bytes" not in stdout
    records = [line for line in stdout.splitlines() if line.startswith("| offset: ") and "endTxnMarker" not in line]
    assert len(records) == sum(len(log.visible) for log in written.values())


def test_the_dump_tool_finds_the_indexes_sane(data_dir: Path, written: dict[str, WrittenLog]) -> None:
    indexes = files_of(data_dir, "*.index") + files_of(data_dir, "*.timeindex")
    stdout, stderr = dump_log_segments(indexes, "--index-sanity-check")
    assert stderr == ""
    assert len(re.findall(r"passed sanity check\.|is empty\.", stdout)) == len(indexes)
    stdout, stderr = dump_log_segments(indexes, "--verify-index-only")
    assert stderr == ""


def without_gaps_of(compacted: Path, stderr: str) -> str:
    """The tool's remarks without those about offsets that the cleaner took away, which is its job."""
    return re.sub(rf"Non-consecutive offsets in {compacted}/\S+\n(  \d+ is followed by \d+\n)+", "", stderr)


def files_of(data_dir: Path, pattern: str) -> list[Path]:
    # What the cleaner replaced is still there for a minute, as .deleted.
    return sorted(path for path in data_dir.glob(f"*-0/{pattern}") if path.suffix != ".deleted")


def test_a_broker_whose_partition_files_were_replaced_by_ours_serves_every_record(
    data_dir: Path, written: dict[str, WrittenLog], golden: Golden, tmp_path: Path
) -> None:
    golden_files = golden.partition(GOLDEN_CASE, "tx-0", tmp_path / "golden")
    sources = {topic: data_dir / f"{topic}-0" for topic in written} | {"golden": golden_files}
    with KafkaBroker(tmp_path / "work", tmp_path / "kafka") as broker:
        create_topics(broker.bootstrap, *sources, config={"segment.ms": "9223372036854775807"})
        broker.stop()
        for topic, source in sources.items():
            replace_partition(tmp_path / "kafka" / f"{topic}-0", source)
        broker.start()

        visible = read_topics(broker.bootstrap, sources)
        committed = read_topics(broker.bootstrap, sources, isolation="read_committed")
        asked = [START + shift for shift in (0, 2500, 9000, 20000, 29999, 60000, 150000, 900000)]
        found = offsets_for_times(broker.bootstrap, "times", asked)
        broker.stop()
        assert " ERROR " not in broker.output()
        assert "corrupt" not in broker.output().lower()

    # The harness itself, on what Kafka wrote: the offsets that the original broker's consumers got.
    live = golden.expected(GOLDEN_CASE, "tx-0")["live"]
    assert [record.offset for record in visible.pop("golden")] == spread(live["visibleOffsets"])
    assert [record.offset for record in committed.pop("golden")] == spread(live["readCommittedOffsets"])

    assert visible == {topic: log.visible for topic, log in written.items()}
    assert committed == {topic: log.committed for topic, log in written.items()}
    times = [(seen.timestamp, seen.offset) for seen in written["times"].visible]
    assert found == [next((offset for timestamp, offset in times if timestamp >= wanted), -1) for wanted in asked]


def spread(ranges: list[list[int]]) -> list[int]:
    return [offset for first, last in ranges for offset in range(first, last + 1)]


def replace_partition(directory: Path, source: Path) -> None:
    """The broker's files give way to those of `source`; only the topic id stays."""
    for path in directory.iterdir():
        if path.name != KEPT:
            path.unlink()
    for path in source.iterdir():
        if path.name != KEPT and path.is_file():
            shutil.copy2(path, directory / path.name)
