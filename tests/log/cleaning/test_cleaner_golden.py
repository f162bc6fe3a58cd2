"""Cleaning what Kafka cleaned: the directories before (`1a-input`, `2a-input`) must become those after (`1b-cleaned`, `2b-cleaned`).

3.9.1 and 4.3.0: every file of the partition, byte for byte, when our clock stands where Kafka's stood. Its time is in the delete
horizons it wrote. One file differs and has nothing to do with cleaning: in KRaft mode each start raises the leader epoch, so 4.3.0's
`leader-epoch-checkpoint` after the cleaning has one entry more.

2.4.1: the same records survive, index files included. Its rules about time are older, so `.log` files differ where a delete
horizon is written (2.4.1 knows none) and where the last batch of a pass is kept empty (2.4.1 drops it: kv-tx, offset 68).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from milepost.clock import ManualClock
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.record.records import Record
from tests.golden_expectations import batch_row, expected_batch_rows
from tests.golden_fixture import Golden, index
from tests.log.cleaning.cleaned_logs import DAY, clean, leftovers

ROUNDS = ["kafka-2.4.1-1", "kafka-3.9.1-1", "kafka-3.9.1-2", "kafka-4.3.0-1"]
CASES = [(round_, name) for round_ in ROUNDS for name in index()[f"compaction/{round_}a-input"]["partitions"]]
WITH_HORIZONS = [case for case in CASES if "2.4.1" not in case[0]]
WITHOUT_HORIZONS = [case for case in CASES if "2.4.1" in case[0]]
NOT_OF_THE_CLEANER = {"leader-epoch-checkpoint"}


def before(round_: str) -> str:
    return f"compaction/{round_}a-input"


def after(round_: str) -> str:
    return f"compaction/{round_}b-cleaned"


def settings_of(golden: Golden, round_: str, partition: str) -> dict[str, object]:
    given = dict(golden.case_json(before(round_))["topics"][partition.rpartition("-")[0]]["config"])
    if "internal.segment.bytes" in given:  # how 4.3.0 is told to make segments below 1 MB
        given["segment.bytes"] = given.pop("internal.segment.bytes")
    return given | {"index.profile": "per-append" if "2.4.1" in round_ else "per-batch"}


def time_of_cleaning(golden: Golden, round_: str, partition: str) -> int:
    """When Kafka's cleaner looked at the clock: a new horizon minus delete.retention.ms; without one, any time of its run."""
    horizons = [
        {row[expected["batchColumns"].index("deleteHorizonMs")] for segment in expected["segments"] for row in segment["batches"]}
        for expected in (golden.expected(before(round_), partition), golden.expected(after(round_), partition))
    ]
    new = horizons[1] - horizons[0]
    if not new:
        started: int = golden.case_json(after(round_))["facts"]["cleanerRanBetween"][0]
        return started
    assert len(new) == 1, "one pass, one horizon"
    return new.pop() - int(settings_of(golden, round_, partition).get("delete.retention.ms", DAY))


def open_before(golden: Golden, tmp_path: Path, round_: str, partition: str, now_ms: int) -> Log:
    directory = golden.partition(before(round_), partition, tmp_path)
    return open_log(str(directory), "a", settings_of(golden, round_, partition), clock=ManualClock(now_ms))


def checkpoint_of(log: Log) -> int | None:
    return log.owner.directory.cleaner_offsets.get(log.partition)  # type: ignore[attr-defined]


def files_in(directory: str) -> dict[str, list[Any]]:
    return {
        path.name: [path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()[:16]]
        for path in Path(directory).iterdir()
        if path.suffix != ".deleted" and path.name not in NOT_OF_THE_CLEANER
    }


def offsets_by_segment(log: Log) -> dict[int, list[int]]:
    return {
        segment.base_offset: [record.offset for _, batch in segment.log.batches() for record in batch.records()]
        for segment in log.segments
    }


def expected_offsets_by_segment(expected: dict[str, Any]) -> dict[int, list[int]]:
    return {segment["baseOffset"]: [row[0] for row in segment["records"]] for segment in expected["segments"]}


@pytest.mark.parametrize(("round_", "partition"), WITH_HORIZONS)
def test_cleaned_directory_is_kafkas_byte_for_byte(golden, tmp_path, round_, partition):
    log = open_before(golden, tmp_path, round_, partition, time_of_cleaning(golden, round_, partition))
    clean(log, checkpoint_of(log))
    log.close()
    expected = golden.expected(after(round_), partition)["files"]
    assert files_in(log.directory) == {name: facts for name, facts in expected.items() if name not in NOT_OF_THE_CLEANER}


@pytest.mark.parametrize(("round_", "partition"), CASES)
@pytest.mark.parametrize("moment", [0, 1], ids=["start of the run", "end of the run"])
def test_same_records_survive_whenever_in_kafkas_run_it_happens(golden, tmp_path, round_, partition, moment):
    now_ms = golden.case_json(after(round_))["facts"]["cleanerRanBetween"][moment]
    log = open_before(golden, tmp_path, round_, partition, now_ms)
    stats = clean(log, checkpoint_of(log))
    expected = golden.expected(after(round_), partition)
    assert offsets_by_segment(log) == expected_offsets_by_segment(expected)
    checkpoint = (golden(after(round_)) / "logdir" / "cleaner-offset-checkpoint").read_text().split()
    topic = partition.rpartition("-")[0]
    assert stats.end_offset == int(checkpoint[checkpoint.index(topic) + 2])
    log.close()


@pytest.mark.parametrize(("round_", "partition"), WITHOUT_HORIZONS)
def test_2_4_1_differs_only_by_horizons_and_by_the_last_batch_of_the_pass(golden, tmp_path, round_, partition):
    log = open_before(golden, tmp_path, round_, partition, time_of_cleaning(golden, round_, partition))
    clean(log, checkpoint_of(log))
    expected = golden.expected(after(round_), partition)
    columns = expected["batchColumns"]
    # What a horizon changes: its own column, where the batch and its successors lie, its bytes.
    changed = [columns.index(name) for name in ("deleteHorizonMs", "position", "size", "crc")]
    extra = []
    for segment, theirs in zip(log.segments, expected["segments"], strict=True):
        our_rows = [batch_row(batch) for _, batch in segment.log.batches()]
        their_rows = {row[columns.index("lastOffset")]: row for row in expected_batch_rows(expected, theirs)}
        for (_, batch), ours in zip(segment.log.batches(), our_rows, strict=True):
            if batch.last_offset not in their_rows:
                extra.append((segment.base_offset, batch.base_offset, batch.last_offset, batch.record_count))
                continue
            row = their_rows[batch.last_offset]
            # Without horizons in the way, positions come from the walk: the file view starts each piece at 0.
            skipped = changed if batch.delete_horizon_ms is not None else [columns.index("position")]
            assert without(ours, skipped) == without(row, skipped)
            has_tombstone = not batch.is_control and any(record.value is None for record in batch.records())
            assert (batch.delete_horizon_ms is not None) == (
                has_tombstone and batch.magic == 2 and segment is not log.segments.active
            )
    assert extra == ([(33, 68, 68, 0)] if partition == "kv-tx-0" else [])
    log.close()
    ours = {name: facts for name, facts in files_in(log.directory).items() if name.endswith("index")}
    assert ours == {name: facts for name, facts in expected["files"].items() if name.endswith("index")}


def without(row: list[Any], skipped: list[int]) -> list[Any]:
    return [value for column, value in enumerate(row) if column not in skipped]


def test_rewritten_wrappers_of_magic_1_are_kafkas_byte_for_byte(golden, tmp_path):
    round_, partition = "kafka-2.4.1-1", "kv-magic1-gzip-0"
    log = open_before(golden, tmp_path, round_, partition, time_of_cleaning(golden, round_, partition))
    clean(log)
    log.close()
    assert files_in(log.directory) == golden.expected(after(round_), partition)["files"]


@pytest.mark.parametrize(("round_", "partition"), CASES)
def test_cleaned_log_is_loaded_again_and_shows_what_kafkas_consumers_saw(golden, tmp_path, round_, partition):
    now_ms = time_of_cleaning(golden, round_, partition)
    log = open_before(golden, tmp_path, round_, partition, now_ms)
    clean(log, checkpoint_of(log))
    producers = {entry.producer_id: (entry.epoch, entry.last_sequence) for entry in log.producers.producers.values()}
    log.close()
    assert leftovers(log) == [name for name in leftovers(log) if name.endswith(".deleted")]
    again = open_log(log.directory, "a", settings_of(golden, round_, partition), clock=ManualClock(now_ms))
    for segment in again.segments:
        segment.check_indexes()
        for _, batch in segment.log.batches():
            batch.ensure_valid()
    live = golden.expected(after(round_), partition)["live"]
    assert ranges(again.records()) == live["visibleOffsets"]
    assert ranges(again.records(isolation="committed")) == live.get("readCommittedOffsets", live["visibleOffsets"])
    assert (again.start_offset, again.end_offset) == (live["earliest"], live["latest"])
    assert {entry.producer_id: (entry.epoch, entry.last_sequence) for entry in again.producers.producers.values()} == producers
    assert leftovers(again) == []
    again.close()


def ranges(records: Any) -> list[list[int]]:
    """Offsets as [first, last] runs."""
    found: list[list[int]] = []
    record: Record
    for record in records:
        if found and found[-1][1] == record.offset - 1:
            found[-1][1] = record.offset
        else:
            found.append([record.offset, record.offset])
    return found


@pytest.mark.parametrize(("round_", "partition"), [case for case in CASES if case[1] in ("kv-0", "kv-lz4-0", "kv-idempotent-0")])
def test_second_cleaning_at_the_same_time_keeps_every_batch(golden, tmp_path, round_, partition):
    log = open_before(golden, tmp_path, round_, partition, time_of_cleaning(golden, round_, partition))
    clean(log, checkpoint_of(log))
    once = [bytes(batch.view()) for segment in log.segments for _, batch in segment.log.batches()]
    clean(log)
    assert [bytes(batch.view()) for segment in log.segments for _, batch in segment.log.batches()] == once
    log.close()
