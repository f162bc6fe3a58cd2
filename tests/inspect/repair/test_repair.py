"""Repair: it says what it would do, does it only when asked, keeps what it replaces, and a second one has nothing to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import milepost
from milepost.inspect.repair.repair import Plan, plan_repair
from milepost.inspect.repair.repair_apply import apply_repair
from milepost.inspect.verify.verify import verify
from tests.golden_fixture import Golden, all_cases
from tests.inspect.logs import batch, contents, log_of, partition
from tests.inspect.repair.repairing import CLOCK, CONFIG, repaired

DAMAGED = [case for case in all_cases("unclean") if case.endswith("-before") or "garbageindex" in case]


def steps(plan: Plan, directory: Path) -> list[str]:
    return [str(step).removeprefix(f"{directory}/") for step in plan.steps]


@pytest.mark.parametrize("case", DAMAGED)
def test_every_damaged_golden_directory_is_whole_afterwards_and_a_second_repair_has_nothing_to_do(
    golden: Golden, tmp_path: Path, case: str
) -> None:
    directory = golden(case, tmp_path) / "logdir"
    before = contents(directory)
    plan = plan_repair(str(directory), CONFIG)
    assert not plan.is_empty
    assert contents(directory) == before, "planning writes nothing"
    repaired(directory)
    report = verify(str(directory))
    assert report.findings == []
    assert plan_repair(str(directory), CONFIG).steps == []


# A start also rebuilds whole indexes from the recovery point on, where Kafka's entries may differ; a repair leaves them alone.
LIKE_A_START = [
    ("3.9.1-noindex-before", "3.9.1-noindex-after"),
    ("3.9.1-torn-before", "3.9.1-torn-after"),
    ("3.9.1-killed-before", "3.9.1-killed-after"),
    ("4.3.0-clean-noindex-before", "4.3.0-clean-noindex-after"),
    ("3.9.1-garbageindex-before", "3.9.1-killed-after"),
    ("3.9.1-clean-garbageindex-before", "3.9.1-killed-after"),
]


@pytest.mark.parametrize(("before", "after"), LIKE_A_START)
def test_logs_and_indexes_become_what_a_start_and_a_clean_stop_of_kafka_make_of_them(
    golden: Golden, tmp_path: Path, before: str, after: str
) -> None:
    directory = golden(f"unclean/kafka-{before}", tmp_path) / "logdir" / "crash-0"
    repaired(directory.parent)
    expected = golden.partition(f"unclean/kafka-{after}", "crash-0")
    names = [path.name for path in expected.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".txnindex")]
    assert {name: (directory / name).read_bytes() for name in names} == {name: (expected / name).read_bytes() for name in names}


def test_a_hole_becomes_a_gap(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-badcrc-before", tmp_path) / "logdir"
    assert steps(plan_repair(str(directory), CONFIG), directory) == [
        "crash-0/00000000000000000094.log: bytes 1144 to 1354 are taken out",
        "crash-0/00000000000000000094.log: offsets 115 to 118 become a gap",
        "crash-0/00000000000000000094.index: rebuilt from the log, index.interval.bytes 256",
        "crash-0/00000000000000000094.timeindex: rebuilt from the log, index.interval.bytes 256",
    ]
    original = (directory / "crash-0" / f"{94:020d}.log").read_bytes()
    kept = repaired(directory)
    assert (directory / "crash-0" / f"{94:020d}.log").read_bytes() == original[:1144] + original[1354:]
    assert (kept / "crash-0" / f"{94:020d}.log.bytes-1144-1354").read_bytes() == original[1144:1354]
    with milepost.open_log(str(directory / "crash-0")) as log:
        offsets = [record.offset for record in log.records()]
        assert log.find(offset=115).offset == 119
        assert log.end_offset == 141
    assert 114 in offsets
    assert not {115, 116, 117, 118} & set(offsets)


def test_the_gap_is_known_from_then_on(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-badcrc-before", tmp_path) / "logdir"
    repaired(directory)
    assert (directory / "crash-0" / "00000000000000000094.log.gap-115-119").read_bytes() == b""
    notes = [str(note) for note in verify(str(directory)).notes]
    assert f"{directory}/crash-0: 1 gap in the offsets accepted by an earlier repair" in notes


def test_a_hole_that_an_earlier_start_noted_is_gone_with_its_copy(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-badcrc-before", tmp_path) / "logdir"
    milepost.open_log(str(directory / "crash-0"), mode="a").close()
    copy = "00000000000000000094.log.hole-1144-1354-115-119"
    assert (directory / "crash-0" / copy).exists()
    kept = repaired(directory)
    assert not (directory / "crash-0" / copy).exists()
    assert (kept / "crash-0" / copy).exists()
    with milepost.open_log(str(directory / "crash-0")) as log:
        assert log.find(offset=116).offset == 119


def test_what_is_replaced_is_kept_beside_the_data_directory_where_kafka_does_not_look(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-clean-garbageindex-before", tmp_path) / "logdir"
    garbage = (directory / "crash-0" / f"{62:020d}.index").read_bytes()
    kept = repaired(directory)
    assert kept == directory.parent / "logdir.repair-20231114T221320Z"
    assert (kept / "crash-0" / f"{62:020d}.index").read_bytes() == garbage
    assert not (kept / "crash-0" / f"{62:020d}.timeindex").exists(), "a whole index is left alone"
    assert len(json.loads((kept / "repair.json").read_text())["steps"]) == 4
    assert sorted(path.name for path in directory.iterdir() if path.is_dir()) == ["crash-0"]


def test_the_marker_of_a_clean_stop_is_put_back(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-clean-garbageindex-before", tmp_path) / "logdir"
    repaired(directory)
    assert json.loads((directory / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}


def test_a_marker_of_ours_says_the_new_size(tmp_path: Path) -> None:
    directory = partition(tmp_path / "data", (0, [batch(0), batch(2)[:40]]))
    (tmp_path / "data" / ".kafka_cleanshutdown").write_text(
        '{"version":0,"brokerEpoch":3,"milepost":{"t-0":[4,123],"u-0":[1,2]}}'
    )
    repaired(tmp_path / "data")
    marker = json.loads((tmp_path / "data" / ".kafka_cleanshutdown").read_text())
    assert marker == {"version": 0, "brokerEpoch": 3, "milepost": {"t-0": [2, 83], "u-0": [1, 2]}}
    assert verify(str(directory)).is_clean


def test_an_unclean_directory_stays_unclean(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-torn-before", tmp_path) / "logdir"
    repaired(directory)
    assert not (directory / ".kafka_cleanshutdown").exists()


def test_a_directory_in_order_needs_nothing(golden: Golden) -> None:
    plan = plan_repair(str(golden("transactions/kafka-3.9.1") / "logdir"))
    assert plan.is_empty
    assert plan.unrepaired == []


def test_a_transaction_index_is_rebuilt_to_the_byte(crash: Path) -> None:
    path = crash / f"{62:020d}.txnindex"
    original = path.read_bytes()
    path.write_bytes(original[:40])
    repaired(crash.parent)
    assert path.read_bytes() == original


def test_a_transaction_whose_marker_is_lost_keeps_its_entry(crash: Path) -> None:
    """Offset 9 aborts the transaction from 1: without the entry, the next marker of the producer would decide about it."""
    path = log_of(crash)
    original = path.read_bytes()
    position = original.index((9).to_bytes(8, "big") + (0x42).to_bytes(4, "big"))
    path.write_bytes(original[: position + 70] + b"\xff" + original[position + 71 :])
    entries = (crash / f"{0:020d}.txnindex").read_bytes()
    repaired(crash.parent)
    assert (crash / f"{0:020d}.txnindex").read_bytes() == entries
    assert verify(str(crash)).findings == []


def test_a_wrong_offset_is_put_right_where_its_neighbours_leave_one_choice(crash: Path) -> None:
    path = crash / f"{31:020d}.log"
    original = path.read_bytes()
    path.write_bytes(original[:4] + b"\1" + original[5:])
    assert steps(plan_repair(str(crash), CONFIG), crash) == [
        "00000000000000000031.log: the batch at position 0 gets offset 31 back"
    ]
    kept = repaired(crash.parent)
    assert path.read_bytes() == original
    assert (kept / "crash-0" / f"{31:020d}.log.bytes-0-8").read_bytes() == bytes(4) + b"\1" + bytes(2) + b"\x1f"


def test_a_damaged_snapshot_is_moved_aside_and_made_anew_by_the_next_start(crash: Path) -> None:
    path = crash / f"{141:020d}.snapshot"
    original = path.read_bytes()
    path.write_bytes(original[:-1])
    kept = repaired(crash.parent)
    assert not path.exists()
    assert (kept / "crash-0" / path.name).read_bytes() == original[:-1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 0|4 60|5 80|9 500", "1 0|4 60|5 80"),  # behind the log's end
        ("1 0|5 60|7 90", "1 0|5 60"),  # offset 110 carries 5
        ("1 0|4 60|5 120", "1 0|4 60|5 110"),  # so does this
        ("2 0|4 60|5 80", "1 0|4 60|5 80"),  # offset 0 carries 1
        ("0 0|1 1|4 60|5 80", "1 0|4 60|5 80"),
    ],
)
def test_only_the_leader_epochs_that_batches_contradict_are_moved(tmp_path: Path, before: str, after: str) -> None:
    segments = [(0, [batch(0, partition_leader_epoch=1)]), (100, [batch(110, partition_leader_epoch=5)])]
    path = partition(tmp_path, *segments) / "leader-epoch-checkpoint"
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    write = before.split("|")
    path.write_text("\n".join(["0", str(len(write)), *write, ""]))
    repaired(tmp_path)
    assert "|".join(path.read_text().splitlines()[2:]) == after


def test_leader_epochs_are_read_from_the_batches(golden: Golden, tmp_path: Path) -> None:
    directory = golden("leader_epochs/kafka-3.9.1", tmp_path) / "logdir"
    path = directory / "epochs-0" / "leader-epoch-checkpoint"
    original = path.read_text()
    assert len(original.splitlines()) > 4
    path.write_text("0\n9\nnonsense")
    repaired(directory)
    assert path.read_text() == original


def test_checkpoints_are_lowered_dropped_or_emptied(crash: Path) -> None:
    data = crash.parent
    (data / "recovery-point-offset-checkpoint").write_text("0\n2\ncrash 0 999\nother 0 5\n")
    (data / "log-start-offset-checkpoint").write_text("0\n1\ncrash 0 999\n")
    (data / "replication-offset-checkpoint").write_text("0\n7\n")
    kept = repaired(data)
    assert (data / "recovery-point-offset-checkpoint").read_text() == "0\n2\ncrash 0 141\nother 0 5\n"
    assert (data / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (data / "replication-offset-checkpoint").read_text() == "0\n0\n"
    assert (kept / "logdir" / "replication-offset-checkpoint").read_text() == "0\n7\n"


def test_a_lost_segment_is_accepted_once(crash: Path) -> None:
    for path in crash.glob(f"{62:020d}.*"):
        path.unlink()
    assert "00000000000000000094.log: offsets 62 to 93 are accepted as lost" in steps(plan_repair(str(crash), CONFIG), crash)
    repaired(crash.parent)
    assert verify(str(crash)).findings == []
    assert (crash / "00000000000000000031.log.gap-62-94").exists()


def test_damage_at_the_end_of_a_sealed_segment_leaves_a_gap_up_to_the_next(crash: Path) -> None:
    path = crash / f"{31:020d}.log"
    original = path.read_bytes()
    path.write_bytes(original[:-30])
    plan = steps(plan_repair(str(crash), CONFIG), crash)
    assert "00000000000000000031.log: offsets 61 to 61 become a gap" in plan
    repaired(crash.parent)
    with milepost.open_log(str(crash)) as log:
        assert log.find(offset=61).offset == 62


def test_an_index_without_a_log_is_moved_aside(crash: Path) -> None:
    (crash / f"{50:020d}.index").write_bytes(b"12345678")
    kept = repaired(crash.parent)
    assert not (crash / f"{50:020d}.index").exists()
    assert (kept / "crash-0" / f"{50:020d}.index").read_bytes() == b"12345678"


def test_what_cannot_be_repaired_stays_a_finding(crash: Path) -> None:
    (crash / "partition.metadata").write_text("nonsense")
    (crash / f"{62:020d}.index").write_bytes(b"")
    (crash / f"{62:020d}.timeindex").write_bytes(b"")
    plan = plan_repair(str(crash.parent), CONFIG)
    assert [os.path.basename(finding.file) for finding in plan.unrepaired] == ["partition.metadata"]
    _, left = apply_repair(plan, clock=CLOCK)
    assert left.is_empty
    assert len(left.unrepaired) == 1
    assert [os.path.basename(finding.file) for finding in verify(str(crash)).findings] == ["partition.metadata"]


def test_several_damages_at_once(crash: Path) -> None:
    change = {
        f"{0:020d}.log": 700,
        f"{31:020d}.log": 300,
        f"{62:020d}.log": 2000,
        f"{94:020d}.timeindex": 3,
        f"{62:020d}.snapshot": 20,
    }
    for name, position in change.items():
        content = bytearray((crash / name).read_bytes())
        content[position] ^= 0x55
        (crash / name).write_bytes(content)
    repaired(crash.parent)
    assert verify(str(crash.parent)).findings == []
    with milepost.open_log(str(crash)) as log:
        assert len(list(log.records())) > 100


def test_a_partition_directory_alone_is_repaired_under_the_lock_of_its_parent(tmp_path: Path) -> None:
    directory = partition(tmp_path / "data", (0, [batch(0), b"\xee" * 50, batch(2)]), name="t-0")
    kept, left = apply_repair(plan_repair(str(directory)), clock=CLOCK)
    assert left.is_empty
    assert (tmp_path / "data" / ".lock").exists()
    assert Path(kept).parent == tmp_path
    assert log_of(directory).read_bytes() == batch(0) + batch(2)


def test_the_time_of_a_rewritten_log_is_kept(tmp_path: Path) -> None:
    directory = partition(tmp_path / "data", (0, [batch(0), b"\xee" * 50, batch(2)]))
    os.utime(log_of(directory), (1_000_000, 1_000_000))
    repaired(tmp_path / "data")
    assert log_of(directory).stat().st_mtime == 1_000_000
