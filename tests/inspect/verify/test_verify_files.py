"""What `verify` says of whole data directories, of single files, of batches that make no sense, and of what it cannot read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from milepost.codec.crc32c import crc32c
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect.verify.verify import verify
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from tests.golden_fixture import Golden
from tests.inspect.logs import TIME, batch, log_of, partition
from tests.inspect.verify.damaging import CLEAN, found_in, notes, sentences

# The data directory.


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "recovery-point-offset-checkpoint",
            "0\n1\ncrash 0 142\n",
            "the recovery point of crash-0 is 142, behind the end of its log at",
        ),
        (
            "replication-offset-checkpoint",
            "0\n1\ncrash 0 999\n",
            "the high watermark of crash-0 is 999, behind the end of its log at 141",
        ),
        (
            "log-start-offset-checkpoint",
            "0\n1\ncrash 0 142\n",
            "the log start of crash-0 is 142, behind the end of its log at 141",
        ),
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
        end_transaction_batch(
            EndTransactionMarker(ControlType.ABORT, 3), offset=0, timestamp=TIME, producer_id=1, producer_epoch=0
        )
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
        f"{base:020d}.log: not a regular file, and not followed or opened; move it out of the partition directory"
        for base in (500, 600)
    ]
