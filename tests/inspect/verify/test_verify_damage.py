"""Damage, one at a time, in a directory that Kafka closed cleanly: `verify` finds each, and where it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.codec.crc32c import crc32c
from milepost.inspect.verify.verify import verify
from milepost.log.open import open_log
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.inspect.logs import TIME, batch, partition
from tests.inspect.verify.damaging import change, found_in, notes


@pytest.mark.parametrize("position", [9, 16, 20, 40, 60, 100, 1000])
def test_a_flipped_byte_in_a_log_is_found(crash: Path, position: int) -> None:
    path = crash / f"{31:020d}.log"
    change(path, position, bytes([path.read_bytes()[position] ^ 0x40]))
    [finding] = [found for found in found_in(crash) if ".log, position" in found]
    assert "and batches follow: offsets" in finding


def test_a_flipped_offset_is_told_from_lost_records(crash: Path) -> None:
    change(crash / f"{31:020d}.log", 4, b"\1")
    [finding] = [found for found in found_in(crash) if ".log, position" in found]
    assert (
        "is whole, but its offset cannot be right: it ends at offset 16777251, and 61 is the last that can be in this segment"
        in finding
    )


def test_a_leader_epoch_that_falls_is_found(crash: Path) -> None:
    change(crash / f"{31:020d}.log", 12, (9).to_bytes(4, "big"))
    assert any("carries leader epoch 0, and an earlier one 9" in found for found in found_in(crash))


@pytest.mark.parametrize(
    ("slot", "entry", "sentence"),
    [
        (0, (5, 367), "entry 0 points to position 367, where no batch starts"),
        (0, (6, 366), "no batch from position 366 up to the next entry ends at offset 37"),
        (1, (1, 844), "entry 1 holds (1, 844), which does not follow the entry before it"),
        (4, (29, 99999), "its last entry points behind the end of the valid log at 2295"),
    ],
)
def test_an_offset_entry_that_does_not_fit_the_log_is_found(
    crash: Path, slot: int, entry: tuple[int, int], sentence: str
) -> None:
    offset, position = entry
    change(crash / f"{31:020d}.index", slot * 8, offset.to_bytes(4, "big") + position.to_bytes(4, "big"))
    assert any(sentence in found for found in found_in(crash))


@pytest.mark.parametrize(("offset", "fits"), [(5, True), (4, False), (6, False)])
def test_the_index_entry_of_kafkas_old_cleaner_is_no_finding(tmp_path: Path, offset: int, fits: bool) -> None:
    """Kafka 2.4.1 writes the last record that it kept, where the batch goes on to its old last offset."""
    records = [Record(2, TIME + 2, b"k", b"v"), Record(5, TIME + 9, b"l", b"v")]
    directory = partition(tmp_path, (0, [batch(0), build_batch(records, last_offset=9, partition_leader_epoch=0)]))
    position = len(batch(0))
    (directory / f"{0:020d}.index").write_bytes(offset.to_bytes(4, "big") + position.to_bytes(4, "big"))
    expected = f"no batch from position {position} up to the next entry ends at offset {offset}; repair rebuilds it"
    assert [found.partition(": ")[2] for found in found_in(directory)] == ([] if fits else [expected])


def test_zeros_in_a_sealed_index_are_found(crash: Path) -> None:
    path = crash / f"{31:020d}.index"
    path.write_bytes(path.read_bytes() + bytes(16))
    assert found_in(crash) == [
        "00000000000000000031.index, position 40: 2 slots behind its 5 entries are zeros; repair rebuilds it"
    ]


@pytest.mark.parametrize(
    ("cut", "sentence"),
    [(-12, "its closing entry is missing: the largest timestamp is 1794735392009, the last entry says 1794735391972"),
     (-1, "35 bytes are not a whole number of 12-byte entries")],
)  # fmt: skip
def test_a_cut_time_index_is_found(crash: Path, cut: int, sentence: str) -> None:
    path = crash / f"{31:020d}.timeindex"
    path.write_bytes(path.read_bytes()[:cut])
    assert any(sentence in found for found in found_in(crash))


def test_a_time_entry_with_a_wrong_timestamp_or_offset_is_found(crash: Path) -> None:
    path = crash / f"{31:020d}.timeindex"
    original = path.read_bytes()
    change(path, 7, bytes([original[7] ^ 1]))
    assert any("brought timestamp" in found or "and a record before" in found for found in found_in(crash))
    path.write_bytes(original)
    change(path, 8, (0).to_bytes(4, "big"))
    assert any("entry 0 says that offset 31 brought timestamp" in found for found in found_in(crash))


def test_a_transaction_that_is_missing_from_its_index_is_found(crash: Path) -> None:
    path = crash / f"{0:020d}.txnindex"
    path.write_bytes(path.read_bytes()[:34])
    assert found_in(crash) == [
        "00000000000000000000.txnindex: the transaction of producer 2 from offset 23, aborted at 24, is missing: "
        "readers of committed data would see its records; repair rebuilds it"
    ]


@pytest.mark.parametrize(
    ("position", "data", "sentence"),
    [
        (0, b"\0\1", "entry 0 has version 1, and 0 is the only one known"),
        (9, b"\7", "entry 0 ends at offset 9, where no ABORT marker of producer 7 is"),
        (17, b"\2", "entry 0 runs from 2 and leaves 0 stable, and the log says 1 and 0"),
        (33, b"\1", "entry 0 runs from 1 and leaves 1 stable, and the log says 1 and 0"),
    ],
)
def test_a_changed_transaction_entry_is_found(crash: Path, position: int, data: bytes, sentence: str) -> None:
    change(crash / f"{0:020d}.txnindex", position, data)
    assert any(sentence in found for found in found_in(crash))


def test_a_transaction_that_is_there_twice_is_found(crash: Path) -> None:
    path = crash / f"{0:020d}.txnindex"
    path.write_bytes(path.read_bytes() + path.read_bytes()[34:])
    assert [found.partition(": ")[2] for found in found_in(crash)] == [
        "entry 2 ends at offset 24, and the one before it at 24; repair rebuilds it"
    ]


def test_a_missing_transaction_index_is_found_for_each_transaction(crash: Path) -> None:
    (crash / f"{0:020d}.txnindex").unlink()
    assert len(found_in(crash)) == 2


@pytest.mark.parametrize("content", [b"", b"\0\1", b"\0\2" + bytes(20)])
def test_a_snapshot_that_does_not_parse_is_found(crash: Path, content: bytes) -> None:
    (crash / f"{62:020d}.snapshot").write_bytes(content)
    [finding] = found_in(crash)
    assert finding.startswith("00000000000000000062.snapshot, position 0: ")
    assert finding.endswith("repair moves it aside; the next start makes it anew")


def test_a_snapshot_that_says_something_else_than_the_log_is_found(crash: Path) -> None:
    path = crash / f"{62:020d}.snapshot"
    content = bytearray(path.read_bytes())
    content[10 + 10 + 3] ^= 1  # the last sequence of the first producer
    content[2:6] = crc32c(bytes(content[6:])).to_bytes(4, "big")
    path.write_bytes(content)
    [finding] = found_in(crash)
    assert "last_sequence is" in finding
    assert "and the log gives" in finding


def test_a_snapshot_inside_a_segment_that_retention_deleted_is_noted(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    for sequence in (0, 10):  # a stop leaves its snapshot at 10 and 20, in the middle of a segment
        with open_log(str(directory), "a", clock=ManualClock(TIME)) as log:
            log.append_as_leader(batch(0, 10, producer_id=7, producer_epoch=0, base_sequence=sequence))
    for path in directory.glob(f"{0:020d}.*"):
        path.unlink()  # what retention leaves of this log, whose end is 20
    for suffix in ("log", "index", "timeindex"):
        (directory / f"{20:020d}.{suffix}").write_bytes(b"")
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    assert sorted(path.name for path in directory.glob("*.snapshot")) == [f"{10:020d}.snapshot", f"{20:020d}.snapshot"]
    report = verify(str(directory))
    assert report.findings == []
    assert notes(report, directory) == [
        f"{10:020d}.snapshot: stands for offset 10, below the first segment at 20; nothing reads it, and the next start removes it"
    ]


def test_a_snapshot_behind_the_end_of_the_log_is_found(crash: Path) -> None:
    shutil.copy(crash / f"{141:020d}.snapshot", crash / f"{200:020d}.snapshot")
    assert found_in(crash) == [
        "00000000000000000200.snapshot: stands for offset 200, behind the end of the log at 141; the next start removes it"
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("0\n1\n", "leader-epoch-checkpoint: 0 entries, line 2 says 1"),
        ("nonsense", "leader-epoch-checkpoint: line 1: 'nonsense' is not a number"),
        ("0\n1\n3 0\n", "leader-epoch-checkpoint: offset 0 belongs to epoch 3 here, and its batch carries 0"),
        ("0\n2\n0 0\n1 500\n", "leader-epoch-checkpoint: epoch 1 starts at offset 500, behind the end of the log at 141"),
    ],
)
def test_leader_epochs_that_do_not_fit_the_batches_are_found(crash: Path, content: str, sentence: str) -> None:
    (crash / "leader-epoch-checkpoint").write_text(content)
    assert any(found.startswith(sentence) for found in found_in(crash)), found_in(crash)


COMPACTED = "0\n3\n1 0\n4 60\n5 80\n"


def compacted(root: Path, epochs: str) -> Path:
    """Compaction left offsets 0 and 1 of epoch 1, nothing of epoch 4, and of epoch 5 what lies in the second segment."""
    segments = [(0, [batch(0, partition_leader_epoch=1)]), (100, [batch(110, partition_leader_epoch=5)])]
    directory = partition(root, *segments)
    (directory / "leader-epoch-checkpoint").write_text(epochs)
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    return directory


def test_epochs_whose_batches_were_compacted_away_are_no_finding(tmp_path: Path) -> None:
    assert found_in(compacted(tmp_path, COMPACTED)) == []


def test_a_lost_topic_id_is_found(crash: Path) -> None:
    (crash / "partition.metadata").write_text("version: 0\ntopic_id: short")
    [finding] = found_in(crash)
    assert "'short' is not an id of 22 base64 characters; restore it from a replica" in finding


def test_a_lost_segment_is_found_by_the_gap_it_leaves(crash: Path) -> None:
    for path in crash.glob(f"{62:020d}.*"):
        path.unlink()
    [finding] = [found for found in found_in(crash) if "a segment is lost" in found]
    assert "offsets 62 to 93 are in no segment, and nothing looks compacted" in finding


def test_an_index_without_its_log_is_found(crash: Path) -> None:
    (crash / f"{50:020d}.timeindex").write_bytes(b"")
    assert found_in(crash) == ["00000000000000000050.timeindex: an index without its log; repair moves it aside"]


def test_left_overs_and_foreign_files_are_noted(crash: Path) -> None:
    for name in ("00000000000000000000.log.deleted", "00000000000000000031.index.cleaned", "00000000000000000062.log.swap",
                 "00000000000000000094.log.hole-1-2-3-4", "notes.txt", "12.log", "leader-epoch-checkpoint.tmp"):  # fmt: skip
        (crash / name).write_bytes(b"x")
    report = verify(str(crash))
    assert report.findings == []
    assert sorted(notes(report, crash)) == [
        "00000000000000000000.log.deleted: waits for its removal",
        "00000000000000000031.index.cleaned: of an unfinished cleaning; the next start drops it",
        "00000000000000000062.log.swap: of an unfinished swap; the next start finishes it",
        "00000000000000000094.log.hole-1-2-3-4: kept by an earlier recovery or repair",
        "12.log: not a file of a log, not looked at",
        "leader-epoch-checkpoint.tmp: of an unfinished replacement; not looked at",
        "notes.txt: not a file of a log, not looked at",
    ]
