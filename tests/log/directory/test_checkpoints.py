"""Offset checkpoints: the text format, and everything that counts as damage."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptCheckpoint, InvalidArgument, KafkaStorage
from milepost.files import Disk, Overlay
from milepost.log.directory.checkpoints import keep_aside, read_offset_checkpoint, write_offset_checkpoint
from milepost.topic_partition import TopicPartition
from tests.golden_fixture import all_cases

TEXT = b"0\n3\na-b 0 7\npage_visits 1 1187\npage_visits 10 1250\n"
OFFSETS = {TopicPartition("a-b", 0): 7, TopicPartition("page_visits", 1): 1187, TopicPartition("page_visits", 10): 1250}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recovery-point-offset-checkpoint"


def test_entries_are_written_in_order_of_topic_and_partition(path):
    write_offset_checkpoint(Disk(), str(path), dict(reversed(OFFSETS.items())))
    assert path.read_bytes() == TEXT


def test_written_entries_are_read_again(path):
    path.write_bytes(TEXT)
    assert read_offset_checkpoint(Disk(), str(path)) == OFFSETS


def test_no_entries(path):
    write_offset_checkpoint(Disk(), str(path), {})
    assert path.read_bytes() == b"0\n0\n"
    assert read_offset_checkpoint(Disk(), str(path)) == {}


def test_missing_file_has_no_entries(path):
    assert read_offset_checkpoint(Disk(), str(path)) == {}


@pytest.mark.parametrize("content", [b"", b"0", b"0\n"])
def test_empty_file_and_lone_version_have_no_entries(path, content):
    path.write_bytes(content)
    assert read_offset_checkpoint(Disk(), str(path)) == {}


def test_fields_may_stand_apart_by_any_blanks(path):
    path.write_bytes(b"0\r\n1\r\n  a \t 0   9223372036854775807\r\n")
    assert read_offset_checkpoint(Disk(), str(path)) == {TopicPartition("a", 0): 9223372036854775807}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"1\n0\n", "line 1: version 1, only version 0"),
        (b"x\n0\n", "line 1: 'x' is not a number"),
        (b"\n0\n", "line 1: '' is not a number"),
        (b"0\nx\na 0 1\n", "line 2: 'x' is not a number"),
        (b"0\n-1\n", "line 2: '-1' is not a number"),
        (b"0\n\na 0 1\n", "line 2: '' is not a number"),
        (b"0\n2\na 0 1\n", "1 entry, line 2 says 2"),
        (b"0\n0\na 0 1\n", "1 entry, line 2 says 0"),
        (b"0\n1\na 0\n", "line 3: 2 fields, expected 3"),
        (b"0\n1\na 0 1 2\n", "line 3: 4 fields, expected 3"),
        (b"0\n1\na 0 1\n\n", "line 4: 0 fields, expected 3"),
        (b"0\n1\na x 1\n", "line 3: 'x' is not a number"),
        (b"0\n1\na -1 1\n", "line 3: '-1' is not a number"),
        (b"0\n1\na 0 -1\n", "line 3: '-1' is not a number"),
        (b"0\n1\na 0 1_0\n", "line 3: '1_0' is not a number"),
        (b"0\n1\na 0 1.0\n", "line 3: '1.0' is not a number"),
        ("0\n1\na 0 \u0661\n".encode(), "is not a number"),
        (b"0\n1\na 2147483648 1\n", "not a number from 0 to 2147483647"),
        (b"0\n1\na 0 9223372036854775808\n", "not a number from 0 to 9223372036854775807"),
        (b"0\n2\na 0 1\na 0 2\n", "line 4: a second entry for a-0"),
        (b"0\n1\na 0 12", "the last line, 3, has no end"),
        (b"0\n1\na 0 1\0\n", "NUL byte at position 9"),
        (bytes(64), "NUL byte at position 0"),
        (b"0\n1\n\xff 0 1\n", "byte 0xff at position 4 is not UTF-8"),
        (b"9" * 5000, "is not a number"),
    ],
)
def test_damage_is_told_with_its_place(path, content, sentence):
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match=f"recovery-point-offset-checkpoint.*{sentence}"):
        read_offset_checkpoint(Disk(), str(path))


def test_file_cut_at_any_byte_is_never_read_as_something_else(path):
    empty = set()
    for size in range(len(TEXT)):
        path.write_bytes(TEXT[:size])
        try:
            assert read_offset_checkpoint(Disk(), str(path)) == {}
            empty.add(size)
        except CorruptCheckpoint:
            pass
    assert empty == {0, 1, 2}


def test_file_with_any_block_of_zeros_is_damaged(path):
    for start in range(len(TEXT)):
        path.write_bytes(TEXT[:start] + bytes(min(8, len(TEXT) - start)) + TEXT[start + 8 :])
        with pytest.raises(CorruptCheckpoint):
            read_offset_checkpoint(Disk(), str(path))


def test_negative_offset_is_not_written(path):
    with pytest.raises(InvalidArgument, match="offset -1 of a-0 is negative"):
        write_offset_checkpoint(Disk(), str(path), {TopicPartition("a", 0): -1})
    assert not path.exists()


def test_crash_while_writing_leaves_the_old_content(path, monkeypatch):
    path.write_bytes(TEXT)

    def broken(self, fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Disk, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        write_offset_checkpoint(Disk(), str(path), {})
    assert path.read_bytes() == TEXT


def test_damaged_file_is_copied_beside_itself(path):
    path.write_bytes(b"first damage")
    assert keep_aside(Disk(), str(path)) == f"{path}.bad"
    path.write_bytes(b"second damage")
    keep_aside(Disk(), str(path))
    assert path.with_name(f"{path.name}.bad").read_bytes() == b"second damage"
    assert path.read_bytes() == b"second damage"


def test_directory_in_place_of_the_file_is_refused(path):
    path.mkdir()
    with pytest.raises(KafkaStorage, match="not a regular file"):
        read_offset_checkpoint(Disk(), str(path))


@pytest.mark.parametrize("case", all_cases())
def test_checkpoints_of_real_brokers_are_read_whole_and_written_the_same_but_for_order(golden, case, tmp_path):
    for path in (golden(case) / "logdir").glob("*-checkpoint"):
        lines = path.read_text().splitlines()
        found = read_offset_checkpoint(Overlay(), str(path))
        assert sorted(f"{tp.topic} {tp.partition} {offset}" for tp, offset in found.items()) == sorted(lines[2:])
        copy = tmp_path / path.name
        write_offset_checkpoint(Disk(), str(copy), found)
        assert sorted(copy.read_text().splitlines()) == sorted(lines or ["0", "0"])
