"""Every golden directory, opened for reading, says what Kafka's dump tool printed and what the running broker answered.

And opening it changes nothing. Left to `test_golden_recovery`: directories that were not recovered yet (`unclean/*-before`) and
those with garbage in their indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from milepost import open_log
from milepost.log.log import Log
from milepost.log.producer_state.snapshot import decode_snapshot
from milepost.log.reading import EARLIEST, LATEST, MAX_TIMESTAMP
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_cases, all_partitions
from tests.golden_log.golden_case import clock_of, config_of, digests

DAMAGED = {case for case in all_cases("unclean") if case.endswith("-before") or "garbageindex" in case}
PARTITIONS = [(case, partition) for case, partition in all_partitions() if case not in DAMAGED]
DAY_MS = 86_400_000
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


class Place(NamedTuple):
    directory: Path
    expected: dict[str, Any]
    log: Log

    @property
    def live(self) -> dict[str, Any]:
        """What the broker answered; nothing for followers, which nobody asked."""
        return self.expected.get("live", {})


def opened(golden: Golden, case: str, partition: str) -> Place:
    directory, expected = golden.partition(case, partition), golden.expected(case, partition)
    log = open_log(str(directory), "r", config_of(golden, case, partition), clock=clock_of(expected))
    return Place(directory, expected, log)


@pytest.fixture(scope="module", params=PARTITIONS, ids=[f"{case}/{partition}" for case, partition in PARTITIONS])
def place(golden: Golden, request: pytest.FixtureRequest) -> Iterator[Place]:
    found = opened(golden, *request.param)
    yield found
    found.log.close()


def ranges(records: Iterator[Record]) -> list[list[int]]:
    found: list[list[int]] = []
    for record in records:
        if found and found[-1][1] == record.offset - 1:
            found[-1][1] = record.offset
        else:
            found.append([record.offset, record.offset])
    return found


def test_indexes_hold_the_entries_that_kafka_printed(place: Place) -> None:
    assert place.log.segments.base_offsets() == [segment["baseOffset"] for segment in place.expected["segments"]]
    for segment, printed in zip(place.log.segments, place.expected["segments"], strict=True):
        offsets, times = segment.offset_index, segment.time_index
        positions = [offsets.entry(slot) for slot in range(offsets.entries)]
        assert [[entry.offset, entry.position] for entry in positions] == printed["index"]
        stamps = [times.entry(slot) for slot in range(times.entries)]
        assert [[entry.timestamp, entry.offset] for entry in stamps] == printed["timeindex"]


def test_transaction_indexes_hold_the_entries_that_kafka_printed(place: Place) -> None:
    for segment, printed in zip(place.log.segments, place.expected["segments"], strict=True):
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


def test_indexes_pass_their_checks_as_they_lie_on_the_disk(place: Place) -> None:
    for segment in place.log.segments:
        segment.check_indexes()
        segment.offset_index.check_order()
        segment.time_index.check_order()
        on_disk = (place.directory / f"{segment.base_offset:020d}.index").read_bytes()
        assert bytes(segment.offset_index.buffer()) == on_disk


def test_producer_state_is_that_of_the_last_snapshot(place: Place) -> None:
    log = place.log
    snapshots = [path for path in place.directory.glob("*.snapshot") if int(path.stem) > log.start_offset]
    assert log.producers.map_end_offset == max([int(path.stem) for path in snapshots], default=log.start_offset)
    entries = decode_snapshot(max(snapshots).read_bytes(), "newest") if snapshots else []
    oldest = log.clock.now_ms() - DAY_MS
    remembered = {
        entry.producer_id: (entry.epoch, entry.last_sequence, entry.last_data_offset, entry.current_txn_first_offset)
        for entry in entries
        if entry.last_timestamp > oldest or entry.current_txn_first_offset is not None
    }
    assert remembered == {
        entry.producer_id: (entry.epoch, entry.last_sequence, entry.last_data_offset, entry.current_txn_first_offset)
        for entry in log.producers.producers.values()
    }


def test_leader_epochs_are_those_of_the_file_but_for_one_that_wrote_nothing(place: Place) -> None:
    known = [[entry.epoch, entry.start_offset] for entry in place.log.epochs.entries]
    printed = place.expected.get("leaderEpochs", [])
    # Kafka drops an entry at the log end too, at its next start. Where that was the only one, the batches tell it again.
    wrote = [entry for entry in printed if entry[1] < place.log.end_offset]
    holds_batches = any(segment["batches"] for segment in place.expected["segments"])
    assert known == (printed if holds_batches and not wrote else wrote)


def test_earliest_latest_and_last_stable_offset_are_what_the_broker_answered(place: Place) -> None:
    log = place.log
    earliest, latest = log.offset_for(EARLIEST), log.offset_for(LATEST)
    assert earliest is not None
    assert latest is not None
    assert (earliest.offset, latest.offset) == (log.start_offset, log.end_offset)
    if place.live:
        answered = (place.live["earliest"], place.live["latest"], place.live["lastStable"])
        assert (log.start_offset, log.end_offset, log.last_stable_offset) == answered


def test_record_with_the_largest_timestamp_is_the_one_the_broker_named(place: Place) -> None:
    answer = place.live.get("maxTimestamp")
    # 2.4.1 does not know the question.
    if answer is not None:
        found = place.log.offset_for(MAX_TIMESTAMP)
        ours = (-1, -1, -1) if found is None else (found.timestamp, found.offset, found.leader_epoch)
        assert ours == (answer["timestamp"], answer["offset"], answer["leaderEpoch"])


def test_lookups_by_time_end_where_the_broker_said(place: Place) -> None:
    for asked, offset, timestamp, leader_epoch, error in place.live.get("byTimestamp", ()):
        # 2.4.1 refuses the question for a topic of magic 0; since 3.0 such a log has no answer instead.
        assert error == 0 or (error == UNSUPPORTED_FOR_MESSAGE_FORMAT and offset == -1)
        found = place.log.offset_for(asked)
        answer = (-1, -1, -1) if found is None else (found.offset, found.timestamp, found.leader_epoch)
        assert answer == (offset, timestamp, leader_epoch), asked


def test_consumers_get_the_offsets_they_got_from_kafka(place: Place) -> None:
    if place.live:
        assert ranges(place.log.records()) == place.live["visibleOffsets"]
    if "readCommittedOffsets" in place.live:
        assert ranges(place.log.records(isolation="committed")) == place.live["readCommittedOffsets"]


def test_lookup_by_offset_ends_at_the_batch_that_holds_it(place: Place) -> None:
    for segment in place.expected["segments"]:
        column = {name: number for number, name in enumerate(place.expected["batchColumns"])}
        for batch in segment["batches"]:
            last_offset = batch[column["lastOffset"]]
            if last_offset >= place.log.start_offset:
                found = place.log.segments.floor(last_offset)
                assert found is not None
                located = found.locate(last_offset)
                assert located is not None
                assert (found.base_offset, located.position) == (segment["baseOffset"], batch[column["position"]])


@pytest.mark.parametrize(("case", "partition"), list(all_partitions("leader_epochs")))
def test_epochs_end_where_the_broker_said(golden: Golden, case: str, partition: str) -> None:
    place = opened(golden, case, partition)
    rows = place.live["epochEnd"]
    found = [(asked, *place.log.epochs.end_offset_for(asked, place.log.end_offset), 0) for asked, *_ in rows]
    place.log.close()
    assert found == [tuple(row) for row in rows]


def metadata(directory: Path) -> dict[str, tuple[int, int, int]]:
    paths = [directory, *directory.rglob("*")]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_ino) for path in paths}


@pytest.mark.parametrize("case", all_cases())
def test_opening_for_reading_changes_no_file_no_name_and_no_time(golden: Golden, case: str) -> None:
    directory = golden(case) / "logdir"
    before = (digests(directory), metadata(directory))
    for partition in sorted(path.name for path in directory.iterdir() if path.is_dir()):
        with opened(golden, case, partition).log as log:
            for _ in log.records(log.start_offset, log.start_offset + 5):
                pass
            log.offset_for(MAX_TIMESTAMP)
    assert (digests(directory), metadata(directory)) == before
