"""What verify says: nothing about every undamaged directory that Kafka wrote, and the right thing about every damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import milepost
from milepost.clock import ManualClock
from milepost.codec.crc32c import crc32c
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect.verify.findings import Report
from milepost.inspect.verify.verify import verify
from milepost.log.open import open_log
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_cases
from tests.inspect.logs import TIME, batch, contents, log_of, partition
from tests.interop.written_logs import write_all

# Kafka keeps garbage indexes; these directories are damaged although Kafka closed them.
KEPT_GARBAGE = ("unclean/kafka-3.9.1-clean-garbageindex-after", "unclean/kafka-3.9.1-garbageindex-after")
UNDAMAGED = [case for case in all_cases() if not case.endswith("-before") and case not in KEPT_GARBAGE]


def sentences(report: Report, directory: Path) -> list[str]:
    return [str(finding).removeprefix(f"{directory}/") for finding in report.findings]


def notes(report: Report, directory: Path) -> list[str]:
    return [str(note).removeprefix(f"{directory}/") for note in report.notes]


def test_most_golden_directories_are_undamaged() -> None:
    assert len(all_cases()) == 66
    assert len(UNDAMAGED) == 53


@pytest.mark.parametrize("case", UNDAMAGED)
def test_an_undamaged_directory_has_no_findings(golden: Golden, case: str) -> None:
    report = verify(str(golden(case) / "logdir"))
    assert report.findings == []
    assert report.batches > 0


@pytest.mark.parametrize("case", UNDAMAGED)
def test_headers_alone_find_nothing_either_and_count_the_same_batches(golden: Golden, case: str) -> None:
    directory = str(golden(case) / "logdir")
    report = verify(directory, headers_only=True)
    assert report.findings == []
    assert report.batches == verify(directory).batches


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.3.0"])
@pytest.mark.parametrize("kind", ["killed", "torn"])
def test_what_a_kill_leaves_is_noted_and_no_finding(golden: Golden, tmp_path: Path, version: str, kind: str) -> None:
    case = f"unclean/kafka-{version}-{kind}-before"
    directory = golden(case, tmp_path) / "logdir"
    if kind == "torn":
        forget_last_time_entry(directory)
    report = verify(str(directory))
    assert report.findings == []
    assert sum("zeros; not used yet" in note for note in notes(report, directory)) == 2
    torn = [note for note in notes(report, directory) if "no whole batch" in note]
    assert len(torn) == (kind == "torn")


def forget_last_time_entry(directory: Path) -> None:
    """These logs were cut by hand, and Kafka had written the batch and its entry: a write that was cut short has none."""
    newest = max((directory / "crash-0").glob("*.timeindex"))
    content = newest.read_bytes()
    used = -(-len(content.rstrip(b"\0")) // 12) * 12
    newest.write_bytes(content[: used - 12] + bytes(len(content) - used + 12))


TORN = {
    "2.4.1": "crash-0/00000000000000000097.log, position 1721: 123 bytes behind offset 126 are no whole batch: "
    "the batch there has 247 bytes, and 123 are left; the next start cuts them off",
    "3.9.1": "crash-0/00000000000000000094.log, position 2227: 123 bytes behind offset 135 are no whole batch: "
    "the batch there has 246 bytes, and 123 are left; the next start cuts them off",
    "4.3.0": "crash-0/00000000000000000148.log, position 307: 104 bytes behind offset 152 are no whole batch: "
    "the batch there has 209 bytes, and 104 are left; the next start cuts them off",
}


@pytest.mark.parametrize("version", list(TORN))
def test_a_torn_tail_is_described_with_its_place(golden: Golden, tmp_path: Path, version: str) -> None:
    directory = golden(f"unclean/kafka-{version}-torn-before", tmp_path) / "logdir"
    forget_last_time_entry(directory)
    assert TORN[version] in notes(verify(str(directory)), directory)


def test_a_log_that_was_cut_below_its_time_index_has_lost_records(golden: Golden) -> None:
    directory = golden("unclean/kafka-4.3.0-torn-before") / "logdir"
    assert sentences(verify(str(directory)), directory) == [
        "crash-0/00000000000000000148.log, position 307: 104 bytes behind offset 152 are no whole batch: the batch there has 209 bytes, "
        "and 104 are left; its time index stands for offset 156, so they were whole once; fetch them from a replica: repair cuts them "
        "off, and so does the next start"
    ]


def test_a_torn_tail_is_a_finding_where_the_stop_was_clean(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-torn-before", tmp_path) / "logdir"
    (directory / ".kafka_cleanshutdown").write_bytes(b"")
    found = sentences(verify(str(directory)), directory)
    assert any("no whole batch" in sentence and sentence.endswith("repair cuts them off") for sentence in found)


def last_batch_at(path: Path) -> int:
    data, position, last = path.read_bytes(), 0, 0
    while position < len(data):
        last, position = position, position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return last


def test_a_changed_byte_in_the_last_batch_of_a_copy_is_a_finding(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    log = log_of(directory)
    start, original = last_batch_at(log), log.read_bytes()
    # The offset and the epoch of a batch (bytes 0-7, 12-15) are not under its checksum.
    for position in (*range(start + 8, start + 12), *range(start + 16, len(original))):
        change(log, position, bytes([original[position] ^ 0x01]))
        found = [sentence for sentence in found_in(directory) if f".log, position {start}" in sentence]
        assert len(found) == 1, position - start
        assert "behind offset 3" in found[0]
        assert found[0].endswith("fetch them from a replica: repair cuts them off, and so does the next start")
        log.write_bytes(original)


def test_a_changed_byte_is_no_torn_write_though_no_other_file_stands_for_the_last_batch(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    (directory / f"{0:020d}.timeindex").write_bytes(b"")
    log = log_of(directory)
    start, original = last_batch_at(log), log.read_bytes()
    for position in range(start + 16, len(original)):
        change(log, position, bytes([original[position] ^ 0x01]))
        assert [f".log, position {start}: " in sentence for sentence in found_in(directory)].count(True) == 1, position - start
        log.write_bytes(original)


def test_a_log_whose_only_batch_is_damaged_is_not_clean(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0, 50)]), clean=False)
    change(log_of(directory), 200, b"\xff")
    report = verify(str(directory))
    assert (report.batches, report.is_clean) == (0, False)


def torn(directory: Path) -> list[str]:
    """What is found about a last batch that lost its last ten bytes."""
    log = log_of(directory)
    log.write_bytes(log.read_bytes()[:-10])
    return [sentence for sentence in found_in(directory) if "behind offset 3" in sentence]


def test_a_last_batch_that_is_too_short_is_a_torn_write(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    (directory / f"{0:020d}.timeindex").write_bytes(b"")
    assert torn(directory) == []


def test_a_short_last_batch_that_the_time_index_knows_was_whole_once(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    assert "its time index stands for offset 5" in torn(directory)[0]


def test_a_short_last_batch_that_a_snapshot_stands_behind_was_whole_once(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    (directory / f"{0:020d}.timeindex").write_bytes(b"")
    (directory / f"{6:020d}.snapshot").write_bytes(b"\0\1" + crc32c(bytes(4)).to_bytes(4, "big") + bytes(4))
    assert "a snapshot stands for offset 6" in torn(directory)[0]


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("recovery-point-offset-checkpoint", "recovery point"), ("replication-offset-checkpoint", "high watermark")],
)
def test_a_short_last_batch_that_a_checkpoint_stands_behind_was_whole_once(tmp_path: Path, name: str, meaning: str) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2), batch(4)]), clean=False)
    (directory / f"{0:020d}.timeindex").write_bytes(b"")
    (tmp_path / name).write_text("0\n1\nt 0 6\n")
    assert f"the {meaning} is 6" in torn(directory)[0]


def test_a_changed_byte_is_found_with_the_offsets_it_costs(golden: Golden) -> None:
    directory = golden("unclean/kafka-3.9.1-badcrc-before") / "logdir"
    assert sentences(verify(str(directory)), directory) == [
        "crash-0/00000000000000000094.log, position 1144: bytes 1144 to 1354 are no valid batch (its CRC is 0x89e419cf, and its header "
        "says 0xebc00b68), and batches follow: offsets 115 to 118 are lost; fetch them from a replica, or accept the gap with repair "
        "--apply"
    ]


def files_found(golden: Golden, case: str) -> list[str]:
    report = verify(str(golden(case) / "logdir"))
    return sorted({os.path.basename(finding.file) for finding in report.findings})


@pytest.mark.parametrize("case", ["unclean/kafka-3.9.1-garbageindex-before", "unclean/kafka-3.9.1-clean-garbageindex-before"])
def test_every_garbled_index_is_found_and_no_other_file(golden: Golden, case: str) -> None:
    assert files_found(golden, case) == [
        "00000000000000000000.index",
        "00000000000000000031.timeindex",
        "00000000000000000062.index",
        "00000000000000000094.index",
    ]


def test_the_garbage_that_kafka_kept_is_found(golden: Golden) -> None:
    assert files_found(golden, "unclean/kafka-3.9.1-garbageindex-after") == ["00000000000000000000.index", "00000000000000000031.timeindex"]
    assert len(files_found(golden, "unclean/kafka-3.9.1-clean-garbageindex-after")) == 4


@pytest.mark.parametrize(("case", "bases"), [("3.9.1-noindex", (0, 31, 62, 94)), ("4.3.0-clean-noindex", (0, 36, 70, 105, 148))])
def test_missing_indexes_are_found_one_by_one(golden: Golden, case: str, bases: tuple[int, ...]) -> None:
    expected = sorted(f"{base:020d}.{kind}" for base in bases for kind in ("index", "timeindex"))
    assert files_found(golden, f"unclean/kafka-{case}-before") == expected


def test_what_milepost_writes_has_no_findings(tmp_path: Path) -> None:
    write_all(tmp_path)
    report = verify(str(tmp_path))
    assert report.findings == []
    assert report.segments > 40


@pytest.mark.parametrize("profile", ["per-batch", "per-append"])
def test_a_log_that_is_open_for_appending_has_no_findings(tmp_path: Path, profile: str) -> None:
    config = {"segment.bytes": 2000, "index.interval.bytes": 100, "segment.index.bytes": 200, "index.profile": profile}
    with milepost.open_log(str(tmp_path / "t-0"), mode="a", config=config) as log:
        for number in range(60):
            log.append([milepost.Record(0, TIME + number, b"k", b"x" * (number % 40)) for _ in range(3)])
            if number % 20 == 7:
                assert verify(str(tmp_path)).findings == []
    report = verify(str(tmp_path))
    assert (report.findings, report.notes, report.records) == ([], [], 180)


def test_reading_never_writes(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-badcrc-before", tmp_path)
    before = contents(directory)
    verify(str(directory / "logdir"))
    assert contents(directory) == before


# Damage, one at a time, in a directory that Kafka closed cleanly.

CLEAN = "unclean/kafka-3.9.1-killed-after"


@pytest.fixture
def crash(golden: Golden, tmp_path: Path) -> Path:
    """A private copy of a clean partition with transactions and four segments: 0, 31, 62, 94, end 141."""
    directory = golden(CLEAN, tmp_path) / "logdir" / "crash-0"
    assert verify(str(directory)).is_clean
    return directory


def found_in(directory: Path) -> list[str]:
    return sentences(verify(str(directory)), directory)


def change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize("position", [9, 16, 20, 40, 60, 100, 1000])
def test_a_flipped_byte_in_a_log_is_found(crash: Path, position: int) -> None:
    path = crash / f"{31:020d}.log"
    change(path, position, bytes([path.read_bytes()[position] ^ 0x40]))
    [finding] = [found for found in found_in(crash) if ".log, position" in found]
    assert "and batches follow: offsets" in finding


def test_a_flipped_offset_is_told_from_lost_records(crash: Path) -> None:
    change(crash / f"{31:020d}.log", 4, b"\1")
    [finding] = [found for found in found_in(crash) if ".log, position" in found]
    assert "is whole, but its offset cannot be right: it ends at offset 16777251, and 61 is the last that can be in this segment" in finding


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
def test_an_offset_entry_that_does_not_fit_the_log_is_found(crash: Path, slot: int, entry: tuple[int, int], sentence: str) -> None:
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
    assert found_in(crash) == ["00000000000000000031.index, position 40: 2 slots behind its 5 entries are zeros; repair rebuilds it"]


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


# The data directory.


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("recovery-point-offset-checkpoint", "0\n1\ncrash 0 142\n", "the recovery point of crash-0 is 142, behind the end of its log at"),
        ("replication-offset-checkpoint", "0\n1\ncrash 0 999\n", "the high watermark of crash-0 is 999, behind the end of its log at 141"),
        ("log-start-offset-checkpoint", "0\n1\ncrash 0 142\n", "the log start of crash-0 is 142, behind the end of its log at 141"),
        ("cleaner-offset-checkpoint", "0\n2\ncrash 0 1\n", "1 entry, line 2 says 2; repair writes it anew"),
        ("recovery-point-offset-checkpoint", "0\n1\ncrash 0 -5\n", "'-5' is not a number"),
        ("meta.properties", "version=7\n", "version 7, only 0 and 1 are known"),
        (".kafka_cleanshutdown", "garbage", "7 bytes that are no marker of a clean stop"),
    ],
)
def test_files_of_a_data_directory_are_checked(golden: Golden, tmp_path: Path, name: str, content: str, sentence: str) -> None:
    directory = golden(CLEAN, tmp_path) / "logdir"
    (directory / name).write_text(content)
    [finding] = sentences(verify(str(directory)), directory)
    assert finding.startswith(name)
    assert sentence in finding


def test_directories_that_are_no_partitions_are_noted(golden: Golden, tmp_path: Path) -> None:
    directory = golden(CLEAN, tmp_path) / "logdir"
    (directory / "stuff").mkdir()
    (directory / "remote-log-index-cache").mkdir()
    (directory / f"crash-1.{'a' * 32}-delete").mkdir()
    report = verify(str(directory))
    assert report.findings == []
    assert notes(report, directory) == [
        "stuff: a directory that is not named TOPIC-PARTITION; Kafka refuses to start on it",
        f"crash-1.{'a' * 32}-delete: marked as delete; not looked into",
    ]


def test_two_directories_for_one_partition_are_found(golden: Golden, tmp_path: Path) -> None:
    directory = golden(CLEAN, tmp_path) / "logdir"
    shutil.copytree(directory / "crash-0", directory / "crash-00")
    assert any("holds crash-0, as crash-0 does" in found for found in sentences(verify(str(directory)), directory))


def test_a_marker_that_does_not_agree_with_the_log_counts_as_none(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2)[:40]]))
    (directory / f"{0:020d}.timeindex").write_bytes((TIME + 1).to_bytes(8, "big") + (1).to_bytes(4, "big"))
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1,"milepost":{"t-0":[4,166]}}')
    assert verify(str(directory)).findings == []
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1,"milepost":{"t-0":[4,123]}}')
    assert not verify(str(directory)).is_clean


# One file.


@pytest.mark.parametrize("name", [f"{31:020d}.log", f"{31:020d}.index", f"{31:020d}.timeindex", f"{0:020d}.txnindex", f"{31:020d}.snapshot",
                                  "leader-epoch-checkpoint", "partition.metadata"])  # fmt: skip
def test_a_single_file_is_checked_by_itself(crash: Path, name: str) -> None:
    for other in (f"{62:020d}.index", f"{62:020d}.snapshot"):
        (crash / other).write_bytes(b"\xff" * 9)
    assert verify(str(crash / name)).findings == []
    (crash / name).write_bytes(b"\xfe" * 9)
    report = verify(str(crash / name))
    assert report.findings
    assert {os.path.basename(finding.file) for finding in report.findings} == {name}


def test_a_checkpoint_is_checked_by_itself(golden: Golden) -> None:
    assert verify(str(golden(CLEAN) / "logdir" / "replication-offset-checkpoint")).is_clean


@pytest.mark.parametrize("name", ["notes.txt", "00000000000000000000.log.deleted", "x.log"])
def test_a_file_that_cannot_be_checked_is_refused(crash: Path, name: str) -> None:
    (crash / name).write_bytes(b"")
    with pytest.raises(KafkaStorage, match=r"not a file that can be checked|its name is not the twenty digits"):
        verify(str(crash / name))


# Batches that are valid and make no sense.


def signed(data: bytearray) -> bytes:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def changed_batch(position: int, data: bytes) -> bytes:
    content = bytearray(batch(0))
    content[position : position + len(data)] = data
    return signed(content)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (changed_batch(57, (3).to_bytes(4, "big")), "its record count is 3, with 2 offsets"),
        (changed_batch(57, (-1).to_bytes(4, "big", signed=True)), "its record count is -1, with 2 offsets"),
        (changed_batch(57, (1).to_bytes(4, "big")), "bytes are left over at position 72"),
        (changed_batch(22, b"\5"), "compression codec 5 in attributes 0x0005"),
        (changed_batch(22, b"\1"), "gzip: the member at byte 0 is damaged"),
        (changed_batch(35, (TIME + 9).to_bytes(8, "big")), f"{TIME + 9} is the largest timestamp, and its records have {TIME + 1}"),
        (changed_batch(61, b"\x7e"), "record 0: its length, 63, stands before position 62"),
        (changed_batch(64, b"\x02"), "the offsets of its records do not rise within 0 to 1"),
    ],
)  # fmt: skip
def test_a_valid_batch_of_nonsense_is_found(tmp_path: Path, data: bytes, sentence: str) -> None:
    directory = partition(tmp_path, (0, [data]))
    assert any(sentence in found for found in found_in(directory)), found_in(directory)


def test_a_marker_without_its_epoch_is_found(tmp_path: Path) -> None:
    marker = bytearray(
        end_transaction_batch(EndTransactionMarker(ControlType.ABORT, 3), offset=0, timestamp=TIME, producer_id=1, producer_epoch=0)
    )
    marker[70:72] = b"\xff\xff"  # the version of the value
    directory = partition(tmp_path, (0, [signed(marker)]))
    assert any("the control batch at offset 0:" in found for found in found_in(directory))


def test_a_stretch_that_was_compacted_away_is_no_finding(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(4)]), (20, [batch(20)]))
    assert found_in(directory) == []


def test_a_segment_that_overlaps_the_next_is_found(tmp_path: Path) -> None:
    directory = partition(tmp_path, (0, [batch(0), batch(2)]), (3, [batch(3)]))
    assert any("it ends at offset 3, and 2 is the last that can be in this segment" in found for found in found_in(directory))


# Files that cannot be read.


class Forbidding(Disk):
    """Root reads everything: a disk that refuses one name stands in for the mode bits."""

    def __init__(self, name: str):
        self.name = name

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        if path.endswith(self.name):
            raise PermissionError(13, "Permission denied", path)
        return super().open(path, flags)


@pytest.mark.parametrize(
    "name", [f"{31:020d}.log", f"{31:020d}.index", f"{62:020d}.txnindex", f"{62:020d}.snapshot", "leader-epoch-checkpoint"]
)
def test_a_file_that_may_not_be_read_is_one_finding_and_the_others_are_checked(crash: Path, name: str) -> None:
    report = verify(str(crash), disk=Forbidding(name))
    found = [finding for finding in report.findings if finding.file.endswith(name)]
    assert [finding.what for finding in found] == ["cannot be read: Permission denied"]
    assert report.segments == 4


class Vanishing(Disk):
    """Retention removes a segment between the listing and the reading."""

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        if path.endswith(f"{0:020d}.log"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return super().open(path, flags)


def test_a_segment_that_vanishes_meanwhile_is_noted(crash: Path) -> None:
    report = verify(str(crash), disk=Vanishing())
    assert report.findings == []
    assert notes(report, crash) == ["00000000000000000000.log: removed while the directory was read"]


def test_checkpoints_that_are_no_files_do_not_keep_the_partitions_from_being_checked(golden: Golden, tmp_path: Path) -> None:
    directory = golden(CLEAN, tmp_path) / "logdir"
    (directory / "recovery-point-offset-checkpoint").unlink()
    os.mkfifo(directory / "recovery-point-offset-checkpoint")
    report = verify(str(directory))
    assert report.segments == 4
    assert sentences(report, directory) == [
        "recovery-point-offset-checkpoint: a FIFO, where a regular file is expected; it was not opened; restore it from a backup"
    ]


def test_links_and_fifos_among_the_files_are_found_and_not_opened(crash: Path) -> None:
    (crash / f"{500:020d}.log").symlink_to(log_of(crash))
    os.mkfifo(crash / f"{600:020d}.log")
    report = verify(str(crash))
    assert sorted(sentences(report, crash)) == [
        f"{base:020d}.log: not a regular file, and not followed or opened; move it out of the partition directory" for base in (500, 600)
    ]
