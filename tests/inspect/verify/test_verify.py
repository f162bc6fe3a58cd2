"""What verify says: nothing about every undamaged directory that Kafka wrote, and the right thing about every damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import milepost
from milepost.codec.crc32c import crc32c
from milepost.inspect.verify.verify import verify
from tests.golden_fixture import Golden, all_cases
from tests.inspect.logs import TIME, batch, contents, log_of, partition
from tests.inspect.verify.damaging import change, found_in, notes, sentences
from tests.interop.written_logs import write_all

# Kafka keeps garbage indexes; these directories are damaged although Kafka closed them.
KEPT_GARBAGE = ("unclean/kafka-3.9.1-clean-garbageindex-after", "unclean/kafka-3.9.1-garbageindex-after")
UNDAMAGED = [case for case in all_cases() if not case.endswith("-before") and case not in KEPT_GARBAGE]


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
    assert files_found(golden, "unclean/kafka-3.9.1-garbageindex-after") == [
        "00000000000000000000.index",
        "00000000000000000031.timeindex",
    ]
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
