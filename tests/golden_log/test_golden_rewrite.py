"""Appending the batches of a golden log again, one call per original append, gives Kafka's files byte for byte.

Where one call ended and the next began is known for producers (one batch each) and for hand-made sets (`case.json`). A
follower and the down-converting broker of 2.4.1 appended many batches at once without saying how many; there the offset index
says it, because the per-append profile puts an entry at the start of an append and under its last offset. Cleaned segments
were not rolled but written by the cleaner, so they are started by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from milepost import open_log
from milepost.log.log import Log
from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot
from tests.golden_fixture import Golden, all_partitions, kafka_version
from tests.golden_log.golden_case import INDEX_SUFFIXES, clock_of, config_of, digests
from tests.quick_disk import QuickDisk

PARTITIONS = [(case, partition) for case, partition in all_partitions() if not case.endswith("-before")]
IDS = [f"{case}/{partition}" for case, partition in PARTITIONS]

GROUPED_BY_INDEX = {
    ("replication/kafka-2.4.1-follower", "replicated-0"),
    ("old_formats/kafka-2.4.1", "magic0-none-0"),
    ("old_formats/kafka-2.4.1", "magic1-none-0"),
    ("old_formats/kafka-2.4.1", "magic1-logappendtime-0"),
    ("old_formats/kafka-2.4.1", "magic-1-then-2-0"),
    ("old_formats/kafka-2.4.1", "magic-0-1-2-0"),
}

GARBAGE = "Kafka kept the garbage that was put into this index (golden/README, not to be copied)"
CLEANED_TXN = "the cleaner copied these entries from its source; the aborted data they speak of is gone"

# Files that an append cannot make again, and why. Everything else must be equal.
EXCEPTIONS = {
    ("unclean/kafka-3.9.1-garbageindex-after", "crash-0"): {
        "00000000000000000000.index": GARBAGE,
        "00000000000000000031.timeindex": GARBAGE,
    },
    ("unclean/kafka-3.9.1-clean-garbageindex-after", "crash-0"): {
        "00000000000000000000.index": GARBAGE,
        "00000000000000000031.timeindex": GARBAGE,
        "00000000000000000062.index": GARBAGE,
        "00000000000000000094.index": GARBAGE,
    },
    ("compaction/kafka-2.4.1-1b-cleaned", "kv-tx-0"): {
        "00000000000000000000.txnindex": CLEANED_TXN,
        "00000000000000000033.txnindex": CLEANED_TXN,
        "00000000000000000069.txnindex": CLEANED_TXN,
    },
    ("compaction/kafka-3.9.1-1b-cleaned", "kv-tx-0"): {
        "00000000000000000000.txnindex": CLEANED_TXN,
        "00000000000000000034.txnindex": CLEANED_TXN,
    },
    ("compaction/kafka-3.9.1-2a-input", "kv-tx-0"): {
        "00000000000000000000.txnindex": CLEANED_TXN,
        "00000000000000000034.txnindex": CLEANED_TXN,
    },
    ("compaction/kafka-3.9.1-2b-cleaned", "kv-tx-0"): {
        "00000000000000000110.txnindex": CLEANED_TXN,
    },
    ("compaction/kafka-4.3.0-1b-cleaned", "kv-tx-0"): {
        "00000000000000000000.txnindex": CLEANED_TXN,
        "00000000000000000036.txnindex": CLEANED_TXN,
    },
}

LINGERS = "2.4.1 leaves the snapshot of an earlier stop where it is; we remove it at the next start"
BEFORE_THE_LOG = "taken when a segment ended that retention has removed since"
STOPPED_EARLY = "Kafka believed the garbage index and stopped at offset 94, so it took none at 141"

# Snapshots that only Kafka has, or only we have. 2.4.1 drops old ones while it runs, so there only its own are looked for.
SNAPSHOT_EXCEPTIONS = {
    ("leader_epochs/kafka-2.4.1", "epochs-0"): {"00000000000000000054.snapshot": LINGERS},
    ("leader_epochs/kafka-2.4.1", "epochs-1"): {"00000000000000000013.snapshot": LINGERS},
    ("log_start/kafka-3.9.1", "delete-records-0"): {"00000000000000000020.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-3.9.1", "delete-records-2"): {"00000000000000000063.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-3.9.1", "retention-bytes-0"): {"00000000000000000073.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-3.9.1", "retention-ms-0"): {"00000000000000000084.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-4.3.0", "delete-records-0"): {"00000000000000000021.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-4.3.0", "delete-records-2"): {"00000000000000000040.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-4.3.0", "retention-bytes-0"): {"00000000000000000076.snapshot": BEFORE_THE_LOG},
    ("log_start/kafka-4.3.0", "retention-ms-0"): {"00000000000000000091.snapshot": BEFORE_THE_LOG},
    ("unclean/kafka-3.9.1-clean-garbageindex-after", "crash-0"): {"00000000000000000141.snapshot": STOPPED_EARLY},
}
# The batches that these producers wrote last were removed by the cleaner, or lost their newest record to it.
PRODUCERS_OF_CLEANED_DATA = ("kv-idempotent-0", "kv-tx-0")


class Append(NamedTuple):
    first_offset: int
    data: bytes
    starts_segment: bool = False


def appends(golden: Golden, case: str, partition: str) -> Iterator[Append]:
    """The calls that made the log, in order."""
    directory, expected = golden.partition(case, partition), golden.expected(case, partition)
    columns = {name: place for place, name in enumerate(expected["batchColumns"])}
    cleaned_below = cleaner_checkpoint(golden(case) / "logdir").get(partition, 0)
    for segment in expected["segments"]:
        content = (directory / f"{segment['baseOffset']:020d}.log").read_bytes()
        is_cleaned = segment["baseOffset"] < cleaned_below
        ends = {row[columns["position"]] + row[columns["size"]]: row[columns["lastOffset"]] for row in segment["batches"]}
        if is_cleaned and kafka_version(case) == "2.4.1":
            ends = {len(content): ends[len(content)]}
        elif (case, partition) in GROUPED_BY_INDEX:
            ends = {end: ends[end] for end in ends_by_index(segment["index"], ends)}
        elif partition.startswith("raw-magic"):
            ends = {end: last for end, last in ends.items() if last in set_ends(golden.case_json(case), partition)}
        # The segment behind the cleaned ones was where the cleaner stopped: it was rolled to, but from a larger segment.
        by_hand = is_cleaned or segment["baseOffset"] == cleaned_below > 0
        start = 0
        for end in ends:
            yield Append(segment["baseOffset"], content[start:end], by_hand and not start)
            start = end


def ends_by_index(entries: list[list[int]], ends: dict[int, int]) -> list[int]:
    """Positions where appends ended: before each entry's position, behind its last offset, and at the end of the segment."""
    position_behind = {last_offset: end for end, last_offset in ends.items()}
    found = {max(ends)}
    for last_offset, position in entries:
        found |= {position, position_behind[last_offset]}
    return sorted(found - {0})


def set_ends(settings: dict[str, Any], partition: str) -> set[int]:
    rows = settings["facts"]["rawProduce"]["rows"]
    return {base_offset + messages - 1 for topic, _, messages, _, base_offset in rows if f"{topic}-0" == partition}


def cleaner_checkpoint(logdir: Path) -> dict[str, int]:
    path = logdir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, lines)}


def restarts(golden: Golden, case: str, partition: str) -> list[int]:
    """Log ends at which the broker was stopped and started again."""
    if case.startswith("leader_epochs/"):
        lives = golden.case_json(case)["facts"]["lives"]["rows"]
        return [ends[int(partition[-1])][0] for _, ends in lives[:-1]]
    if "-2a-" in case:
        return [golden.expected(case.replace("-2a-input", "-1b-cleaned"), partition)["live"]["latest"]]
    return []


def rewrite(golden: Golden, case: str, partition: str, directory: Path) -> None:
    """Write the log anew in an empty directory and stop cleanly."""
    config, clock = config_of(golden, case, partition), clock_of(golden.expected(case, partition))
    stops = restarts(golden, case, partition)

    def reopened() -> Log:
        return open_log(str(directory), "a", config, clock=clock, disk=QuickDisk())

    log = reopened()
    first_base = golden.expected(case, partition)["segments"][0]["baseOffset"]
    if first_base:
        log.truncate_fully_and_start_at(first_base)
    for append in appends(golden, case, partition):
        while stops and log.end_offset >= stops[0]:
            stops.pop(0)
            log.close()
            log = reopened()
        if append.starts_segment and log.segments.active.base_offset != append.first_offset:
            log.roll(append.first_offset)
        log.append_as_follower(append.data)
    log.close()


@pytest.mark.parametrize(("case", "partition"), PARTITIONS, ids=IDS)
def test_appending_the_batches_again_gives_the_same_files(golden: Golden, tmp_path: Path, case: str, partition: str) -> None:
    original, copy = golden.partition(case, partition), tmp_path / partition
    rewrite(golden, case, partition, copy)
    theirs, ours = digests(original, ".log", *INDEX_SUFFIXES), digests(copy, ".log", *INDEX_SUFFIXES)
    unequal = {name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)}
    assert unequal == set(EXCEPTIONS.get((case, partition), {}))
    assert_same_snapshots(case, partition, snapshots(original), snapshots(copy))


def assert_same_snapshots(
    case: str, partition: str, theirs: dict[str, set[SnapshotEntry]], ours: dict[str, set[SnapshotEntry]]
) -> None:
    unmatched = theirs.keys() - ours.keys() if kafka_version(case) == "2.4.1" else theirs.keys() ^ ours.keys()
    assert unmatched == set(SNAPSHOT_EXCEPTIONS.get((case, partition), {}))
    has_cleaned_segments = case.startswith("compaction/") and not case.endswith("-1a-input")
    if not (has_cleaned_segments and partition in PRODUCERS_OF_CLEANED_DATA):
        both = theirs.keys() & ours.keys()
        assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}


def snapshots(directory: Path) -> dict[str, set[SnapshotEntry]]:
    """Kafka writes the producers in the order of its hash map, so the files are compared as sets."""
    return {path.name: set(decode_snapshot(path.read_bytes(), path.name)) for path in directory.glob("*.snapshot")}


def test_582_of_598_segments_are_equal_in_all_their_files(golden: Golden) -> None:
    segments = sum(len(golden.expected(case, partition)["segments"]) for case, partition in PARTITIONS)
    excepted = {(place, name.split(".")[0]) for place, names in EXCEPTIONS.items() for name in names}
    assert (segments - len(excepted), segments) == (582, 598)
