"""Paths: a data directory, several, single partitions, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.spark.log_files.listing import list_partitions
from tests.spark.logs import Batch, Gap, many_batches, write_log
from tests.spark.rows import read_rows


def test_partition_directories_are_paths_too(tmp_path: Path) -> None:
    first = write_log(tmp_path / "a", "t", 0, [Batch((b"x",))])
    write_log(tmp_path / "a", "t", 1, [Batch((b"y",))])
    third = write_log(tmp_path / "b", "u", 7, [Batch((b"z",))])
    assert [row["value"] for row in read_rows({"path": first})] == [b"x"]
    assert [row["value"] for row in read_rows({"path": f"{first},{third}"})] == [b"x", b"z"]
    assert [row["value"] for row in read_rows({"path": f"{tmp_path / 'a'},{third}", "subscribe": "t,u"})] == [b"x", b"y", b"z"]


def test_path_that_a_person_names_may_be_a_link(tmp_path: Path) -> None:
    write_log(tmp_path / "real", "t", 0, [Batch((b"x",))])
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert len(read_rows({"path": tmp_path / "link"})) == 1


def test_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "data", "t", 0, [Batch((b"x",))])
    monkeypatch.chdir(tmp_path)
    listing = list_partitions(Disk(), ("data",))
    assert [segment.path for files in listing.partitions.values() for segment in files.segments] == [
        str(tmp_path / "data" / "t-0" / "00000000000000000000.log")
    ]


def test_path_that_is_not_there_or_no_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KafkaStorage, match=r"nowhere: No such file or directory"):
        list_partitions(Disk(), (str(tmp_path / "nowhere"),))
    (tmp_path / "file").write_text("x")
    with pytest.raises(KafkaStorage, match="not a directory; name a data directory"):
        list_partitions(Disk(), (str(tmp_path / "file"),))


def test_directory_that_may_not_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_log(tmp_path, "t", 0, [Batch((b"x",))])
    listdir = Disk.listdir

    def refuse(self: Disk, path: str) -> list[str]:
        if path == str(directory):
            raise PermissionError(13, "Permission denied", path)
        return listdir(self, path)

    monkeypatch.setattr(Disk, "listdir", refuse)
    with pytest.raises(KafkaStorage, match=f"{directory}: Permission denied"):
        list_partitions(Disk(), (str(tmp_path),))


def test_only_wanted_topics_are_looked_into(tmp_path: Path) -> None:
    write_log(tmp_path, "t", 0, [Batch((b"x",))])
    write_log(tmp_path, "u", 0, [Batch((b"x",))])
    assert [str(each) for each in list_partitions(Disk(), (str(tmp_path),), False, lambda topic: topic == "u").partitions] == [
        "u-0"
    ]


def test_log_that_begins_behind_offset_zero(tmp_path: Path) -> None:
    directory = write_log(tmp_path, "t", 0, [Gap(1000), *many_batches(40)], segment_bytes=1000)
    sorted(directory.glob("*.log"))[0].unlink()
    rows = read_rows({"path": tmp_path})
    assert [row["offset"] for row in rows] == list(range(rows[0]["offset"], 1120))


@pytest.mark.parametrize(
    "gone", ["replication-offset-checkpoint.tmp", "u-0", "t-0/00000000000000000099.log", "t-0/leader-epoch-checkpoint.tmp"]
)
def test_names_that_vanish_while_they_are_listed_are_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A running broker renames temporary files and deletes segments at any moment."""
    directory = write_log(tmp_path, "t", 0, [Batch((b"x",))])
    listdir = Disk.listdir

    def listed(self: Disk, path: str) -> list[str]:
        parent, _, name = gone.rpartition("/")
        return [*listdir(self, path), name] if path == str(tmp_path / parent).rstrip("/") else listdir(self, path)

    monkeypatch.setattr(Disk, "listdir", listed)
    listing = list_partitions(Disk(), (str(tmp_path),))
    assert [len(files.segments) for files in listing.partitions.values()] == [1]
    assert [str(each.directory) for each in listing.partitions.values()] == [str(directory)]
