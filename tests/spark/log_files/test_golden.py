"""Every golden directory reads through the source as Kafka's dump tool printed it and its broker answered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from milepost.log.directory.partition_directory import parse_directory_name
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition
from tests.golden_expectations import in_the_form_of
from tests.golden_fixture import Golden, all_cases, all_partitions
from tests.spark.rows import Row, read_rows

# Not recovered yet, or with damage that Kafka kept: tests of damage look at these.
DAMAGED = {case for case in all_cases("unclean") if case.endswith("-before") or "garbageindex" in case}
PARTITIONS = [(case, partition) for case, partition in all_partitions() if case not in DAMAGED]
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
# Kafka takes the age of the file for a segment without timestamps, finds nothing in it and stops; a copied file has another age, so we
# go on to the first segment that has any.
STARTS_WITHOUT_TIMES = ("old_formats/kafka-2.4.1", "magic-0-1-2-0")


def expected_rows(expected: dict[str, Any], partition: TopicPartition, start: int = 0) -> list[list[Any]]:
    """[offset, timestamp or None, timestamp type, key, value, headers or None], without markers."""
    rows = []
    batch_columns = {name: place for place, name in enumerate(expected["batchColumns"])}
    for segment in expected["segments"]:
        kinds = {row[batch_columns["lastOffset"]]: row[batch_columns["timestampType"]] for row in segment["batches"]}
        last_offsets = sorted(kinds)
        for offset, timestamp, _, key, value, headers in segment["records"]:
            if offset < start or (isinstance(headers, dict) and "marker" in headers):
                continue
            kind = kinds[next(last for last in last_offsets if last >= offset)]
            shown = [tuple(header) for header in headers or ()] or None
            rows.append([offset, timestamp if timestamp != -1 else None, TIMESTAMP_TYPES[kind], key, value, shown])
    return rows


def in_form(rows: list[Row], printed: list[list[Any]]) -> list[list[Any]]:
    """Our rows with contents shown as those at the same place are."""
    found = []
    for number, row in enumerate(rows):
        _, _, _, key, value, headers = printed[number] if number < len(printed) else [None] * 6
        forms = [form for _, form in headers or ()]
        shown = row["headers"] and [
            (name, in_the_form_of(forms[at] if at < len(forms) else None, content))
            for at, (name, content) in enumerate(row["headers"])
        ]
        contents = in_the_form_of(key, row["key"]), in_the_form_of(value, row["value"])
        found.append([row["offset"], row["timestamp"], row["timestampType"], *contents, shown])
    return found


def options_of(golden: Golden, case: str, partition: str, **more: object) -> dict[str, object]:
    topic, number = parse_directory_name(partition)[0].topic, parse_directory_name(partition)[0].partition
    return {"path": golden(case) / "logdir", "assign": json.dumps({topic: [number]}), "endOfLog": "logEnd", **more}


@pytest.mark.parametrize(("case", "partition"), PARTITIONS)
def test_partition_reads_as_kafka_printed_it(golden: Golden, case: str, partition: str) -> None:
    expected = golden.expected(case, partition)
    start = expected.get("live", {}).get("earliest", 0)
    printed = expected_rows(expected, parse_directory_name(partition)[0], start)
    rows = read_rows(options_of(golden, case, partition))
    assert in_form(rows, printed) == printed
    assert {f"{row['topic']}-{row['partition']}" for row in rows} <= {partition}


def offsets_as_ranges(rows: list[Row]) -> list[list[int]]:
    found: list[list[int]] = []
    for row in rows:
        if found and found[-1][1] == row["offset"] - 1:
            found[-1][1] = row["offset"]
        else:
            found.append([row["offset"], row["offset"]])
    return found


@pytest.mark.parametrize(("case", "partition"), PARTITIONS)
def test_offsets_and_times_are_what_the_broker_answered(golden: Golden, case: str, partition: str) -> None:
    expected = golden.expected(case, partition)
    live = expected.get("live")
    if not live:
        return  # a follower, which nobody asked
    place = parse_directory_name(partition)[0]
    printed = expected_rows(expected, place)
    for level, latest in (("read_uncommitted", live["latest"]), ("read_committed", live["lastStable"])):
        options = options_of(golden, case, partition, **{"kafka.isolation.level": level})
        transport = LogFilesTransport(SourceOptions.parse({name: str(value) for name, value in options.items()}, streaming=False))
        assert transport.earliest([place]) == {place: live["earliest"]}
        assert transport.latest([place]) == {place: latest}
        for asked, offset, _, _, error in live.get("byTimestamp", ()) if level == "read_uncommitted" else ():
            assert error in (0, UNSUPPORTED_FOR_MESSAGE_FORMAT)
            answer = offset if offset >= 0 else None
            if (case, partition) == STARTS_WITHOUT_TIMES:
                answer = next((row[0] for row in printed if row[1] is not None and row[1] >= asked), None)
            assert transport.offsets_for_times({place: asked}) == {place: answer}, asked
    if "readCommittedOffsets" in live:
        rows = read_rows(options_of(golden, case, partition, **{"kafka.isolation.level": "read_committed"}))
        assert offsets_as_ranges(rows) == live["readCommittedOffsets"]


@pytest.fixture(scope="module")
def everything(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All golden partitions in one data directory, each topic named by its case, so that one query reads them all."""
    root = tmp_path_factory.mktemp("everything")
    for case, partition in PARTITIONS:
        shutil.copytree(golden.partition(case, partition), root / f"{case.replace('/', '.')}.{partition}")
    return root


def test_one_spark_query_reads_all_golden_partitions(spark: Any, golden: Golden, everything: Path) -> None:
    frame = spark.read.format("milepost").option("path", str(everything)).option("includeHeaders", "true").load()
    found: dict[str, list[Row]] = {}
    for row in frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("topic", "partition", "offset").toLocalIterator():
        headers = row["headers"] and [(header["key"], header["value"]) for header in row["headers"]]
        contents = {name: row[name] and bytes(row[name]) if row[name] is not None else None for name in ("key", "value")}
        plain = {**row.asDict(), **contents, "timestamp": row["ms"], "headers": headers}
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(plain)
    for case, partition in PARTITIONS:
        printed = expected_rows(golden.expected(case, partition), parse_directory_name(partition)[0])
        rows = found.pop(f"{case.replace('/', '.')}.{partition}", [])
        assert in_form(rows, printed) == printed, (case, partition)
    assert found == {}
