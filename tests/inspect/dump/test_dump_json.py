"""A dump as JSON says what Kafka's own tool said, for every file of every golden directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from milepost.files import Disk
from milepost.inspect.dump.dump import Dump, Options
from milepost.inspect.dump.dump_json import JsonView
from milepost.inspect.dump.filters import Filter
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.golden_expectations import expected_batch_rows
from tests.golden_fixture import Golden, all_partitions
from tests.inspect.logs import TIME, batch, partition

PARTITIONS = list(all_partitions())
ENTRIES = (("indexEntry", "index", ("offset", "position")), ("timeIndexEntry", "timeindex", ("timestamp", "offset")))
SNAPSHOT_KEYS = (
    "producerId",
    "producerEpoch",
    "coordinatorEpoch",
    "currentTxnFirstOffset",
    "lastTimestamp",
    "firstSequence",
    "lastSequence",
    "lastOffset",
    "offsetDelta",
)
IDS = [f"{case}/{name}" for case, name in PARTITIONS]


def dumped(path: Path | str, options: Options | None = None) -> list[dict[str, Any]]:
    lines: list[str] = []
    view = JsonView(options or Options(), lines.append)
    Dump(Disk(), options or Options(), view).path(str(path))
    view.finish()
    return [json.loads(line) for line in lines]


def of_type(found: list[dict[str, Any]], kind: str, *keys: str) -> list[list[Any]]:
    return [[line[key] for key in keys] for line in found if line["type"] == kind]


@pytest.mark.parametrize(("case", "name"), PARTITIONS, ids=IDS)
def test_every_golden_file_is_shown_as_kafkas_tool_showed_it(golden: Golden, case: str, name: str) -> None:
    directory, expected = golden.partition(case, name), golden.expected(case, name)
    for segment in expected["segments"]:
        stem = f"{segment['baseOffset']:020d}"
        found = dumped(directory / f"{stem}.log", Options(deep_iteration=True))
        rows = of_type(found, "batch", *expected["batchColumns"])
        assert [legacy_nulls(row) for row in rows] == [legacy_nulls(row) for row in expected_batch_rows(expected, segment)]
        records = of_type(found, "record", "offset", "timestamp", "sequence")
        assert records == [[*row[:2], -1 if row[2] is None else row[2]] for row in segment["records"]]
        for kind, suffix, keys in ENTRIES:
            if suffix in segment and not any("failed" in note for note in segment.get(f"{suffix}Notes", ())):
                assert of_type(dumped(directory / f"{stem}.{suffix}"), kind, *keys) == segment[suffix]
        if "txnindex" in segment:
            keys = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
            assert of_type(dumped(directory / f"{stem}.txnindex"), "abortedTransaction", *keys) == [
                [entry[key] for key in keys] for entry in segment["txnindex"]
            ]


def legacy_nulls(row: list[Any]) -> list[Any]:
    """What magic 0 and 1 do not have is null in the expectation; we show the value that stands for none."""
    return row if row[15] == 2 else [row[1], *row[11:]]


@pytest.mark.parametrize(("case", "name"), PARTITIONS, ids=IDS)
def test_snapshots_epochs_and_topic_ids_are_shown_as_they_are(golden: Golden, case: str, name: str) -> None:
    directory, expected = golden.partition(case, name), golden.expected(case, name)
    for file, producers in expected["snapshots"].items():
        # 2.4.1 prints no lastTimestamp; a producer without a batch has no sequences.
        keys = [key for key in SNAPSHOT_KEYS if key != "lastTimestamp" or any(key in producer for producer in producers)]
        shown = of_type(dumped(directory / file), "producer", *keys)
        by_id = sorted(producers, key=lambda producer: producer["producerId"])
        assert sorted(shown) == [[producer.get(key) for key in keys] for producer in by_id]
    if (directory / "leader-epoch-checkpoint").exists():
        assert of_type(dumped(directory / "leader-epoch-checkpoint"), "leaderEpoch", "epoch", "startOffset") == expected["leaderEpochs"]
    if expected.get("partitionMetadata"):
        [[topic_id]] = of_type(dumped(directory / "partition.metadata"), "partitionMetadata", "topicId")
        assert topic_id == expected["partitionMetadata"]["topic_id"]


def test_checkpoints_and_identity_of_a_data_directory_come_before_its_partitions(golden: Golden) -> None:
    found = dumped(golden("unclean/kafka-3.9.1-badcrc-before") / "logdir")
    assert ["crash", 0, 62] in of_type(found, "checkpoint", "topic", "partition", "offset")
    assert of_type(found, "metaProperties", "version", "clusterId", "nodeId") == [[0, "96bEgRTsTz2rgy_E1VaAEw", 1]]
    kinds = [line["kind"] for line in found if line["type"] == "file"]
    assert kinds.index("cluster and broker") < kinds.index("record batches")


def test_keys_and_payloads_are_text_hex_or_null(tmp_path: Path) -> None:
    records = [
        Record(0, TIME, "schlüssel".encode(), b"\xff\x00", (("h", None), ("h", b"\xfe"))),
        Record(1, TIME, None, b""),
    ]
    directory = partition(tmp_path, (0, [build_batch(records)]))
    found = dumped(directory / f"{0:020d}.log", Options(print_data_log=True))
    assert of_type(found, "record", "key", "payload", "headers") == [
        ["schlüssel", {"hex": "ff00"}, [["h", None], ["h", {"hex": "fe"}]]],
        [None, "", []],
    ]


def test_markers_are_named_with_their_coordinator_epoch(golden: Golden) -> None:
    found = dumped(golden.partition("transactions/kafka-3.9.1", "tx-0"), Options(print_data_log=True))
    control = [line for line in found if line["type"] == "record" and "controlType" in line]
    assert {line["controlType"] for line in control} == {"COMMIT", "ABORT"}
    assert {line["coordinatorEpoch"] for line in control} == {0}
    assert not any("key" in line for line in control)


def test_records_of_internal_topics_are_decoded_into_objects(golden: Golden) -> None:
    found = dumped(golden.partition("groups/kafka-3.9.1", "__consumer_offsets-0"), Options(print_data_log=True))
    [key, payload] = of_type(found, "record", "key", "payload")[1]
    assert key == {"type": "1", "data": {"group": "g-classic", "topic": "page_visits", "partition": 0}}
    assert payload["data"]["offset"] == 20


def test_a_bad_batch_is_shown_as_invalid_and_the_walk_goes_on(golden: Golden) -> None:
    found = dumped(golden.partition("unclean/kafka-3.9.1-badcrc-before", "crash-0") / f"{94:020d}.log")
    assert [line["baseOffset"] for line in found if line["type"] == "batch" and not line["isvalid"]] == [115]
    assert of_type(found, "damage", "position", "size", "isTail") == [[1144, 210, False]]
    assert found[-1]["lastOffset"] == 140


def test_filters_choose_batches_and_records(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0, 3), batch(3, 3), batch(6, 3)]))
    options = Options(deep_iteration=True, filter=Filter(offset_from=4, offset_to=6))
    found = dumped(directory / f"{0:020d}.log", options)
    assert of_type(found, "batch", "baseOffset") == [[3], [6]]
    assert of_type(found, "record", "offset") == [[4], [5], [6]]


def test_a_filter_on_keys_shows_only_batches_that_hold_one(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0, 3), batch(3, 3)]))
    found = dumped(directory / f"{0:020d}.log", Options(filter=Filter(key=b"k4")))
    assert of_type(found, "batch", "baseOffset") == [[3]]


def test_batches_are_chosen_by_how_their_transaction_ended(golden: Golden) -> None:
    directory = golden.partition("transactions/kafka-3.9.1", "tx-0")
    offsets = {}
    for state in ("committed", "aborted", "open", "none"):
        found = dumped(directory, Options(filter=Filter(transaction_state=state)))
        offsets[state] = [offset for [offset] in of_type(found, "batch", "baseOffset")]
    assert [offset for offset in offsets["aborted"] if offset < 10] == [8, 9]
    assert offsets["none"][0] == 0
    assert offsets["open"] == []
    assert len(set().union(*offsets.values())) == sum(map(len, offsets.values()))


def test_the_byte_limit_ends_the_dump_without_calling_the_rest_damaged(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2)]))
    found = dumped(directory / f"{0:020d}.log", Options(max_bytes=100))
    assert [line["type"] for line in found] == ["file", "batch"]


def test_files_on_their_way_out_are_shown_last(tmp_path: Path) -> None:
    directory = partition(tmp_path, (10, [batch(10)]))
    (directory / f"{0:020d}.log.deleted").write_bytes(batch(0))
    files = [line["file"] for line in dumped(directory) if line["type"] == "file"]
    assert files[-1].endswith(".log.deleted")
    assert [0, 1] in of_type(dumped(directory), "batch", "baseOffset", "lastOffset")
