"""What a path is, told from its name and its surroundings; and what is never opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect.paths import FileKind, PathKind, look_at, open_regular, partitions_in, read_name
from tests.inspect.logs import batch, partition

DISK = Disk()


@pytest.mark.parametrize(
    ("name", "kind", "base_offset", "left_over"),
    [
        ("00000000000000000251.log", FileKind.LOG, 251, ""),
        ("00000000000000000251.index", FileKind.OFFSET_INDEX, 251, ""),
        ("00000000000000000251.timeindex", FileKind.TIME_INDEX, 251, ""),
        ("00000000000000000251.txnindex", FileKind.TXN_INDEX, 251, ""),
        ("00000000000000000251.snapshot", FileKind.SNAPSHOT, 251, ""),
        ("00000000000000000251.log.deleted", FileKind.LOG, 251, ".deleted"),
        ("00000000000000000251.timeindex.swap", FileKind.TIME_INDEX, 251, ".swap"),
        ("00000000000000000251.log.cleaned", FileKind.LOG, 251, ".cleaned"),
        ("00000000000000000094.log.hole-1144-1354-115-119", FileKind.KEPT, 94, ""),
        ("00000000000000000094.log.cut-2227", FileKind.KEPT, 94, ""),
        ("00000000000000000094.log.gap-115-119", FileKind.KEPT, 94, ""),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCHS, None, ""),
        ("leader-epoch-checkpoint.tmp", FileKind.TEMPORARY, None, ""),
        ("partition.metadata", FileKind.PARTITION_METADATA, None, ""),
        ("replication-offset-checkpoint", FileKind.CHECKPOINT, None, ""),
        ("recovery-point-offset-checkpoint.bad", FileKind.KEPT, None, ""),
        ("meta.properties", FileKind.META_PROPERTIES, None, ""),
        (".kafka_cleanshutdown", FileKind.CLEAN_SHUTDOWN, None, ""),
        (".lock", FileKind.LOCK, None, ""),
        ("bootstrap.checkpoint", FileKind.KRAFT, None, ""),
        ("notes.txt", FileKind.UNKNOWN, None, ""),
        ("", FileKind.UNKNOWN, None, ""),
    ],
)
def test_a_file_name_says_what_the_file_is(name, kind, base_offset, left_over):
    found = read_name(name)
    assert (found.kind, found.base_offset, found.left_over) == (kind, base_offset, left_over)


def test_a_directory_with_segments_is_a_partition_whatever_its_name(tmp_path):
    directory = partition(tmp_path, (0, [batch(0)]), name="copy of a log")
    assert look_at(DISK, str(directory)).kind is PathKind.PARTITION


def test_a_directory_with_partitions_or_checkpoints_is_a_data_directory(tmp_path):
    partition(tmp_path / "a", (0, [batch(0)]), clean=False)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "replication-offset-checkpoint").write_text("0\n0\n")
    assert look_at(DISK, str(tmp_path / "a")).kind is PathKind.DATA
    assert look_at(DISK, str(tmp_path / "b")).kind is PathKind.DATA


def test_an_empty_directory_named_like_a_partition_is_one(tmp_path):
    (tmp_path / "page_visits-3").mkdir()
    assert look_at(DISK, str(tmp_path / "page_visits-3")).kind is PathKind.PARTITION


def test_a_trailing_slash_changes_nothing(tmp_path):
    directory = partition(tmp_path, (0, [batch(0)]))
    assert look_at(DISK, f"{directory}/").path == str(directory)


def test_a_link_to_a_directory_is_followed_when_it_is_named(tmp_path):
    directory = partition(tmp_path, (0, [batch(0)]))
    (tmp_path / "link").symlink_to(directory)
    assert look_at(DISK, str(tmp_path / "link")).kind is PathKind.PARTITION


def test_a_link_among_the_partitions_is_not(tmp_path):
    directory = partition(tmp_path, (0, [batch(0)]))
    (tmp_path / "t-1").symlink_to(directory)
    assert partitions_in(DISK, str(tmp_path)) == ["t-0"]


def unusable(root: Path) -> dict[str, str]:
    """Name -> what the sentence says about it."""
    (root / "empty").mkdir()
    os.mkfifo(root / "fifo.log")
    (root / "dangling").symlink_to(root / "nowhere")
    (root / "loop").symlink_to(root / "loop")
    (root / "file").write_bytes(b"")
    (root / "to-file").symlink_to(root / "file")
    return {
        "missing": "no such file or directory",
        "empty": "neither segments",
        "fifo.log": "a FIFO",
        "dangling": "a symbolic link that leads to no directory",
        "loop": "a symbolic link that leads to no directory",
        "to-file": "name the file it stands for",
    }


@pytest.mark.parametrize("name", ["missing", "empty", "fifo.log", "dangling", "loop", "to-file"])
def test_a_path_that_cannot_be_looked_into_is_named_with_the_reason(tmp_path, name):
    sentence = unusable(tmp_path)[name]
    with pytest.raises(KafkaStorage, match=sentence) as error:
        look_at(DISK, str(tmp_path / name))
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize("name", ["fifo.log", "to-file", "dangling", "empty"])
def test_only_regular_files_are_opened(tmp_path, name):
    unusable(tmp_path)
    with pytest.raises(KafkaStorage, match="where a regular file is expected"):
        open_regular(DISK, str(tmp_path / name))
