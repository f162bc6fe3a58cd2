"""Reading directories with foreign names, wrong names, links, devices and locked files in them: S-08 to S-13 of the reliability rules."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from milepost.errors import CorruptRecord, InvalidArgument, KafkaStorage
from milepost.files import Disk
from milepost.spark.columns import Columns
from milepost.spark.log_files.listing import list_partitions
from milepost.spark.log_files.views import plan_view
from milepost.spark.options import SourceOptions
from tests.spark.log_files.hostile import offsets, planned, positions, quarantine, segments, strict
from tests.spark.logs import Batch, write_log
from tests.spark.rows import read_rows, read_tasks

# S-08, S-09: foreign names.


def test_foreign_files_and_directories_are_left_out_and_counted_by_reason(log: Path) -> None:
    base = segments(log)[1].name[:-4]
    for name in (
        f"{base}.log.swap",
        f"{base}.log.cleaned",
        f"{base}.log.deleted",
        "notes.txt",
        ".page.log.swp",
        "123.log",
        f"{base}.log~",
    ):
        (log / name).write_bytes(b"not a log")
    data = log.parent
    for name in ("t-1.0123456789abcdef0123456789abcdef-delete", "t-2.0123456789abcdef0123456789abcdef-future", "lost+found", "t"):
        (data / name).mkdir()
    (data / "file").write_text("x")
    assert offsets(strict(log)) == list(range(60))
    reasons = {Path(each.path).name: each.reason for each in list_partitions(Disk(), (str(data),)).skipped}
    assert set(reasons) == {
        f"{base}.log.swap", f"{base}.log.cleaned", f"{base}.log.deleted", "notes.txt", ".page.log.swp", "123.log", f"{base}.log~",
        "t-1.0123456789abcdef0123456789abcdef-delete", "t-2.0123456789abcdef0123456789abcdef-future", "lost+found", "t", "file",
    }  # fmt: skip
    assert reasons["t-1.0123456789abcdef0123456789abcdef-delete"] == "a directory marked -delete"
    rows = [row for task in read_tasks(strict(log, view="files"), Columns.of("files")) for row in task]
    assert sum(row["kind"] == "skipped" for row in rows) == 12


@pytest.mark.parametrize("view", ["segments", "batches", "files"])
def test_view_of_nothing_says_what_is_there(log: Path, tmp_path: Path, view: str) -> None:
    def planned(**given: str) -> object:
        return plan_view(SourceOptions.parse({"view": view, **given}, streaming=False))

    with pytest.raises(InvalidArgument, match=r"there is no topic nope in .*; topics there: t$"):
        planned(path=str(log.parent), subscribe="nope")
    (tmp_path / "empty").mkdir()
    with pytest.raises(KafkaStorage, match="empty: there is no partition in it; name a data directory"):
        planned(path=str(tmp_path / "empty"))


def test_internal_topics_are_found_although_their_names_begin_with_an_underscore(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "data", "__consumer_offsets", 0, [Batch((b"v",))])
    assert [row["topic"] for row in read_rows({"path": directory.parent, "subscribe": "__consumer_offsets"})] == [
        "__consumer_offsets"
    ]


def test_empty_segment_files_are_passed(log: Path) -> None:
    (log / "00000000000000000060.log").write_bytes(b"")
    assert offsets(strict(log)) == list(range(60))


# S-10: wrong names, overlaps.


def test_file_named_by_a_higher_offset_than_it_holds_is_an_error(log: Path, tmp_path: Path) -> None:
    second = segments(log)[1]
    base = int(second.stem)
    second.rename(second.with_name(f"{base + 1:020d}.log"))
    with pytest.raises(
        CorruptRecord, match=rf"{base + 1:020d}\.log: batch at byte 0: it starts at offset {base}, and {base + 1} is"
    ):
        offsets(strict(log))


def test_segments_that_overlap_are_an_error(log: Path, tmp_path: Path) -> None:
    first, second = segments(log)[:2]
    first.write_bytes(first.read_bytes() + second.read_bytes()[: positions(second)[1][0]])
    with pytest.raises(KafkaStorage, match=rf"{first}.*offsets must rise from file to file"):
        offsets(strict(log))
    assert offsets(quarantine(log, tmp_path / "aside")) == list(range(60))


# S-11, S-12: what is no regular file.


def test_symbolic_links_are_followed_only_when_asked_for_and_only_below_the_path(log: Path, tmp_path: Path) -> None:
    data = log.parent
    (data / "u-0").symlink_to(log, target_is_directory=True)
    outside = write_log(tmp_path / "elsewhere", "x", 0, [Batch((b"v",))])
    (data / "x-0").symlink_to(outside, target_is_directory=True)
    (data / "y-0").symlink_to(data / "y-0")
    (data / "z-0").symlink_to(data / "nowhere")
    listing = list_partitions(Disk(), (str(data),))
    assert [str(each) for each in listing.partitions] == ["t-0"]
    assert {Path(each.path).name for each in listing.skipped} == {"u-0", "x-0", "y-0", "z-0"}
    listing = list_partitions(Disk(), (str(data),), follow_symlinks=True)
    assert [str(each) for each in listing.partitions] == ["t-0", "u-0"]
    reasons = {Path(each.path).name: each.reason for each in listing.skipped}
    assert "leads out of" in reasons["x-0"]
    assert "leads nowhere" in reasons["y-0"]
    assert "leads nowhere" in reasons["z-0"]
    assert len(read_rows({"path": data, "subscribe": "u", "followSymlinks": "true"})) == 60


def test_link_to_a_segment_outside_is_not_read(log: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.log"
    segments(log)[1].rename(moved)
    (log / f"{positions(moved)[0][1]:020d}.log").symlink_to(moved)
    listing = list_partitions(Disk(), (str(log.parent),), follow_symlinks=True)
    assert [each.reason for each in listing.skipped] == [f"a symbolic link that leads out of {log.parent}"]


def test_fifo_socket_and_device_named_like_segments_are_not_opened(log: Path) -> None:
    os.mkfifo(log / "00000000000000000100.log")
    (log / "00000000000000000200.log").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(log)  # the name of a socket has 108 bytes at most
        try:
            listener.bind("00000000000000000300.log")
        finally:
            os.chdir(here)
        assert offsets(strict(log)) == list(range(60))
        reasons = sorted(each.reason for each in list_partitions(Disk(), (str(log.parent),)).skipped)
    assert reasons == [
        "a symbolic link; followSymlinks=true follows it",
        "named like a segment but a FIFO",
        "named like a segment but a socket",
    ]


def test_segment_that_becomes_a_link_after_the_plan_is_not_followed(log: Path, tmp_path: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    first = segments(log)[0]
    first.rename(tmp_path / "aside.log")
    first.symlink_to(tmp_path / "aside.log")
    with pytest.raises(KafkaStorage, match=str(first)):
        [batch.num_rows for part in parts for batch in reader.read(part)]


# S-13: permissions.


def test_file_that_may_not_be_read_is_an_error_in_both_modes(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = str(segments(log)[1])
    opened = Disk.open

    def refuse(self: Disk, path: str, flags: int = os.O_RDONLY) -> int:
        if path == closed:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, flags)

    monkeypatch.setattr(Disk, "open", refuse)
    for options in (strict(log), quarantine(log, tmp_path / "aside")):
        with pytest.raises(KafkaStorage, match=rf"{closed}: Permission denied"):
            offsets(options)
