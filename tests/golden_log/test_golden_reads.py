"""Every golden directory, opened for reading, says what Kafka's dump tool printed and what the running broker answered; and opening changes nothing.

`unclean/*-before` (not yet recovered) and the cases whose indexes are garbage are compared in `test_golden_recovery`; of the
latter only the indexes that Kafka itself could read are compared here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import open_log
from milepost.log.log import Log
from milepost.log.reading import EARLIEST, LATEST, MAX_TIMESTAMP
from milepost.log.snapshot import decode_snapshot
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_cases, all_partitions
from tests.golden_log.golden_case import clock_of, config_of, digests

DAMAGED = {case for case in all_cases("unclean") if case.endswith("-before") or "garbageindex" in case}
PARTITIONS = [(case, partition) for case, partition in all_partitions() if case not in DAMAGED]
everywhere = pytest.mark.parametrize(
    ("case", "partition"), PARTITIONS, ids=[f"{case}/{partition}" for case, partition in PARTITIONS]
)

UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


def opened(golden: Golden, case: str, partition: str) -> Log:
    expected = golden.expected(case, partition)
    return open_log(str(golden.partition(case, partition)), "r", config_of(golden, case, partition), clock=clock_of(expected))


def live(golden: Golden, case: str, partition: str) -> dict[str, Any]:
    """What the broker answered; nothing for the followers, which nobody asked."""
    return golden.expected(case, partition).get("live", {})


def ranges(records: Iterator[Record]) -> list[list[int]]:
    found: list[list[int]] = []
    for record in records:
        if found and found[-1][1] == record.offset - 1:
            found[-1][1] = record.offset
        else:
            found.append([record.offset, record.offset])
    return found


@everywhere
def test_indexes_hold_the_entries_that_kafka_printed(golden: Golden, case: str, partition: str) -> None:
    expected = golden.expected(case, partition)["segments"]
    with opened(golden, case, partition) as log:
        assert log.segments.base_offsets() == [segment["baseOffset"] for segment in expected]
        for segment, printed in zip(log.segments, expected, strict=True):
            offsets, times = segment.offset_index, segment.time_index
            positions = [offsets.entry(slot) for slot in range(offsets.entries)]
            assert [[entry.offset, entry.position] for entry in positions] == printed["index"]
            stamps = [times.entry(slot) for slot in range(times.entries)]
            assert [[entry.timestamp, entry.offset] for entry in stamps] == printed["timeindex"]
            aborted = [
                {
                    "version": transaction.version,
                    "producerId": transaction.producer_id,
                    "firstOffset": transaction.first_offset,
                    "lastOffset": transaction.last_offset,
                    "lastStableOffset": transaction.last_stable_offset,
                }
                for transaction in segment.txn_index.transactions()
            ]
            assert aborted == printed.get("txnindex", [])


@everywhere
def test_no_index_had_to_be_rebuilt_in_memory(golden: Golden, case: str, partition: str) -> None:
    with opened(golden, case, partition) as log:
        for segment in log.segments:
            segment.check_indexes()
            segment.offset_index.check_order()
            segment.time_index.check_order()


@everywhere
def test_snapshots_hold_the_producers_that_kafka_printed(golden: Golden, case: str, partition: str) -> None:
    directory = golden.partition(case, partition)
    printed = golden.expected(case, partition)["snapshots"]
    assert sorted(path.name for path in directory.glob("*.snapshot")) == sorted(printed)
    for name, producers in printed.items():
        found = decode_snapshot((directory / name).read_bytes(), name)
        assert sorted((entry.producer_id, entry.epoch, entry.last_sequence) for entry in found) == sorted(
            (producer["producerId"], producer["producerEpoch"], producer["lastSequence"]) for producer in producers
        )


@everywhere
def test_producer_state_is_that_of_the_last_snapshot(golden: Golden, case: str, partition: str) -> None:
    directory = golden.partition(case, partition)
    newest = max(directory.glob("*.snapshot"))
    stored = {entry.producer_id: entry for entry in decode_snapshot(newest.read_bytes(), newest.name)}
    with opened(golden, case, partition) as log:
        assert log.producers.map_end_offset == int(newest.stem)
        assert set(log.producers.producers) == set(stored)
        for producer_id, entry in stored.items():
            known = log.producers.producers[producer_id]
            assert (known.epoch, known.last_sequence, known.last_data_offset, known.current_txn_first_offset) == (
                entry.epoch,
                entry.last_sequence,
                entry.last_data_offset,
                entry.current_txn_first_offset,
            )


@everywhere
def test_leader_epochs_are_those_of_the_file_but_for_one_that_wrote_nothing(golden: Golden, case: str, partition: str) -> None:
    with opened(golden, case, partition) as log:
        known = [[entry.epoch, entry.start_offset] for entry in log.epochs.entries]
        printed = golden.expected(case, partition).get("leaderEpochs", [])
        # Kafka drops such an entry too, at its next start.
        assert known == [entry for entry in printed if entry[1] < log.end_offset]


@everywhere
def test_earliest_latest_and_last_stable_offset_are_what_the_broker_answered(golden: Golden, case: str, partition: str) -> None:
    answers = live(golden, case, partition)
    with opened(golden, case, partition) as log:
        earliest, latest = log.offset_for(EARLIEST), log.offset_for(LATEST)
        assert earliest is not None
        assert latest is not None
        if answers:
            found = (earliest.offset, latest.offset, log.last_stable_offset)
            assert found == (answers["earliest"], answers["latest"], answers["lastStable"])
            assert (log.start_offset, log.end_offset) == (answers["earliest"], answers["latest"])


@everywhere
def test_record_with_the_largest_timestamp_is_the_one_the_broker_named(golden: Golden, case: str, partition: str) -> None:
    with opened(golden, case, partition) as log:
        found = log.offset_for(MAX_TIMESTAMP)
    # 2.4.1 does not know the question.
    answer = live(golden, case, partition).get("maxTimestamp")
    if answer is not None and answer["offset"] >= 0:
        assert found is not None
        assert (found.timestamp, found.offset, found.leader_epoch) == (answer["timestamp"], answer["offset"], answer["leaderEpoch"])
    elif answer is not None:
        assert found is None


@everywhere
def test_lookups_by_time_end_where_the_broker_said(golden: Golden, case: str, partition: str) -> None:
    with opened(golden, case, partition) as log:
        for asked, offset, timestamp, leader_epoch, error in live(golden, case, partition).get("byTimestamp", ()):
            # 2.4.1 refuses the question for a topic of magic 0; since 3.0 such a log has no answer instead.
            assert error == 0 or (error == UNSUPPORTED_FOR_MESSAGE_FORMAT and offset == -1)
            found = log.offset_for(asked)
            answer = (-1, -1, -1) if found is None else (found.offset, found.timestamp, found.leader_epoch)
            assert answer == (offset, timestamp, leader_epoch), asked


@everywhere
def test_consumers_get_the_offsets_they_got_from_kafka(golden: Golden, case: str, partition: str) -> None:
    answers = live(golden, case, partition)
    with opened(golden, case, partition) as log:
        if answers:
            assert ranges(log.records()) == answers["visibleOffsets"]
        if "readCommittedOffsets" in answers:
            assert ranges(log.records(isolation="committed")) == answers["readCommittedOffsets"]


@everywhere
def test_every_record_is_found_by_its_offset(golden: Golden, case: str, partition: str) -> None:
    expected = golden.expected(case, partition)
    with opened(golden, case, partition) as log:
        rows = [row for segment in expected["segments"] for row in segment["records"] if row[0] >= log.start_offset]
        for offset, timestamp, *_ in rows:
            found = log.find(offset=offset)
            assert found is not None
            assert (found.offset, found.timestamp) == (offset, timestamp)


@pytest.mark.parametrize(("case", "partition"), list(all_partitions("leader_epochs")))
def test_epochs_end_where_the_broker_said(golden: Golden, case: str, partition: str) -> None:
    rows = live(golden, case, partition)["epochEnd"]
    with opened(golden, case, partition) as log:
        found = [(asked, *log.epochs.end_offset_for(asked, log.end_offset), 0) for asked, *_ in rows]
    assert found == [tuple(row) for row in rows]


def metadata(directory: Path) -> dict[str, tuple[int, int, int]]:
    paths = [directory, *directory.rglob("*")]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_ino) for path in paths}


@pytest.mark.parametrize("case", all_cases())
def test_opening_for_reading_changes_no_file_no_name_and_no_time(golden: Golden, case: str) -> None:
    directory = golden(case) / "logdir"
    before = (digests(directory), metadata(directory))
    for partition in sorted(path.name for path in directory.iterdir() if path.is_dir()):
        with opened(golden, case, partition) as log:
            for _ in log.records(log.start_offset, log.start_offset + 5):
                pass
            log.offset_for(MAX_TIMESTAMP)
    assert (digests(directory), metadata(directory)) == before
