"""One start and one clean stop over what a kill left: the files that Kafka made of the same directory.

Or better ones, where Kafka keeps garbage or loses records (a changed byte with whole batches behind it is a hole, not a torn tail).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import open_log
from milepost.errors import CorruptRecord
from milepost.log.log import Log
from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot
from tests.golden_fixture import Golden
from tests.golden_log.golden_case import INDEX_SUFFIXES, clock_of, config_of, digests
from tests.quick_disk import QuickDisk

CRASH = "crash-0"
BADCRC = "unclean/kafka-3.9.1-badcrc-before"
# Kafka keeps garbage indexes; ours are rebuilt to what an undamaged start of the same log gives.
AFTER = {
    "unclean/kafka-2.4.1-killed-before": "unclean/kafka-2.4.1-killed-after",
    "unclean/kafka-2.4.1-torn-before": "unclean/kafka-2.4.1-torn-after",
    "unclean/kafka-3.9.1-killed-before": "unclean/kafka-3.9.1-killed-after",
    "unclean/kafka-3.9.1-torn-before": "unclean/kafka-3.9.1-torn-after",
    "unclean/kafka-3.9.1-noindex-before": "unclean/kafka-3.9.1-noindex-after",
    "unclean/kafka-3.9.1-garbageindex-before": "unclean/kafka-3.9.1-killed-after",
    "unclean/kafka-3.9.1-clean-garbageindex-before": "unclean/kafka-3.9.1-killed-after",
    "unclean/kafka-4.3.0-killed-before": "unclean/kafka-4.3.0-killed-after",
    "unclean/kafka-4.3.0-torn-before": "unclean/kafka-4.3.0-torn-after",
    "unclean/kafka-4.3.0-clean-noindex-before": "unclean/kafka-4.3.0-clean-noindex-after",
}


def start(golden: Golden, case: str, directory: Path) -> Log:
    clock = clock_of(golden.expected(case, CRASH))
    return open_log(str(directory), "a", config_of(golden, case, CRASH), clock=clock, disk=QuickDisk())


def snapshots(directory: Path) -> dict[str, set[SnapshotEntry]]:
    return {path.name: set(decode_snapshot(path.read_bytes(), path.name)) for path in directory.glob("*.snapshot")}


@pytest.mark.parametrize("before", AFTER)
def test_start_and_stop_leave_the_log_and_the_indexes_that_kafka_left(golden: Golden, tmp_path: Path, before: str) -> None:
    directory, after = golden.partition(before, CRASH, tmp_path), golden.partition(AFTER[before], CRASH)
    start(golden, before, directory).close()
    assert digests(directory, ".log", *INDEX_SUFFIXES) == digests(after, ".log", *INDEX_SUFFIXES)


@pytest.mark.parametrize("before", AFTER)
def test_start_and_stop_leave_the_producer_state_that_kafka_left(golden: Golden, tmp_path: Path, before: str) -> None:
    directory, after = golden.partition(before, CRASH, tmp_path), golden.partition(AFTER[before], CRASH)
    start(golden, before, directory).close()
    ours, theirs = snapshots(directory), snapshots(after)
    assert {name: ours[name] for name in theirs} == theirs
    # 2.4.1 deletes old snapshots while it runs.
    assert ours.keys() - theirs.keys() == ({"00000000000000000031.snapshot"} if "2.4.1" in before else set())


@pytest.mark.parametrize("before", AFTER)
def test_start_learns_the_leader_epochs_that_kafka_knew(golden: Golden, tmp_path: Path, before: str) -> None:
    log = start(golden, before, golden.partition(before, CRASH, tmp_path))
    known = [[entry.epoch, entry.start_offset] for entry in log.epochs.entries]
    end_offset = log.end_offset
    log.close()
    # The last epoch that Kafka noted began with the start that made the directory, and no record has it.
    assert known == [entry for entry in golden.expected(AFTER[before], CRASH)["leaderEpochs"] if entry[1] < end_offset]


@pytest.mark.parametrize("before", [*AFTER, BADCRC])
def test_second_start_and_stop_change_no_byte(golden: Golden, tmp_path: Path, before: str) -> None:
    directory = golden.partition(before, CRASH, tmp_path)
    start(golden, before, directory).close()
    first = digests(directory)
    start(golden, before, directory).close()
    assert digests(directory) == first


@pytest.mark.parametrize(
    ("before", "end_offset", "kept"),
    [
        ("unclean/kafka-2.4.1-torn-before", 127, ("00000000000000000097.log.cut-1721", 123)),
        ("unclean/kafka-3.9.1-torn-before", 136, ("00000000000000000094.log.cut-2227", 123)),
        ("unclean/kafka-4.3.0-torn-before", 153, ("00000000000000000148.log.cut-307", 104)),
    ],
)
def test_torn_tail_is_cut_and_kept_beside_the_log(
    golden: Golden, tmp_path: Path, before: str, end_offset: int, kept: tuple[str, int]
) -> None:
    directory = golden.partition(before, CRASH, tmp_path)
    log = start(golden, before, directory)
    assert log.end_offset == end_offset
    log.close()
    assert [(path.name, path.stat().st_size) for path in directory.glob("*.cut-*")] == [kept]


def test_changed_byte_with_whole_batches_behind_it_is_a_hole_and_the_log_end_stays(golden: Golden, tmp_path: Path) -> None:
    directory = golden.partition(BADCRC, CRASH, tmp_path)
    before = digests(directory, ".log")
    log = start(golden, BADCRC, directory)
    [hole] = log.segments.active.log.holes
    assert (hole.position, hole.end, hole.first_offset, hole.next_offset) == (1144, 1354, 115, 119)
    assert log.end_offset == 141
    log.close()
    assert digests(directory, ".log") == before
    damaged = (directory / "00000000000000000094.log").read_bytes()[1144:1354]
    assert (directory / "00000000000000000094.log.hole-1144-1354-115-119").read_bytes() == damaged


@pytest.mark.parametrize("offset", [115, 116, 118])
def test_read_inside_the_hole_says_that_the_record_is_corrupt(golden: Golden, tmp_path: Path, offset: int) -> None:
    log = start(golden, BADCRC, golden.partition(BADCRC, CRASH, tmp_path))
    with pytest.raises(CorruptRecord, match=f"offset {offset} lies in damaged bytes 1144 to 1354.*seek to 119"):
        log.read(offset)
    log.close()


def test_records_before_and_behind_the_hole_are_as_kafka_wrote_them(golden: Golden, tmp_path: Path) -> None:
    log = start(golden, BADCRC, golden.partition(BADCRC, CRASH, tmp_path))
    rows = golden.expected("unclean/kafka-3.9.1-killed-after", CRASH)["segments"][-1]["records"]
    written = {row[0]: (row[0], row[1]) for row in rows}
    before = [(record.offset, record.timestamp) for record in log.records(94, 115)]
    behind = [(record.offset, record.timestamp) for record in log.records(119)]
    log.close()
    assert before == [written[offset] for offset in range(94, 115)]
    assert behind == [written[offset] for offset in range(119, 141)]


def test_append_behind_a_hole_continues_at_the_log_end_and_the_hole_is_known_after_the_restart(
    golden: Golden, tmp_path: Path
) -> None:
    directory = golden.partition(BADCRC, CRASH, tmp_path)
    log = start(golden, BADCRC, directory)
    last = log.read(140).batches[0]
    appended = bytearray(last.view())
    appended[:8] = (141).to_bytes(8, "big")
    log.append_as_follower(bytes(appended))
    log.close()
    log = start(golden, BADCRC, directory)
    assert log.end_offset == 141 + last.last_offset_delta + 1
    with pytest.raises(CorruptRecord):
        log.read(117)
    assert log.read(141).batches[0].base_offset == 141
    log.close()
