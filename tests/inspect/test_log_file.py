"""Walking a `.log` as it lies on disk: valid batches, holes, tails, and offsets that no checksum protects."""

from __future__ import annotations

import os

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, KafkaStorage
from milepost.files import Disk
from milepost.inspect import log_file
from milepost.inspect.log_file import Damage, LogFile
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.inspect.logs import batch

B0, B1, B2 = batch(0), batch(2), batch(4)
SIZE = len(B0)


@pytest.fixture
def walk(tmp_path):
    """What the walk over a file with this content finds: (position, "batch" | Damage) of each."""

    def walked(content, base_offset=0, max_offset=None, **options):
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(content)
        with LogFile(Disk(), str(path), base_offset, max_offset) as log:
            return [(position, found if isinstance(found, Damage) else "batch") for position, found in log.walk(**options)]

    return walked


def flipped(content, position):
    return content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]


def test_whole_batches_follow_each_other(walk):
    assert walk(B0 + B1 + B2) == [(0, "batch"), (SIZE, "batch"), (2 * SIZE, "batch")]


def test_an_empty_file_holds_nothing(walk):
    assert walk(b"") == []


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 60, 61, SIZE - 1])
def test_a_batch_cut_short_at_the_end_is_a_tail(walk, cut):
    [first, (position, damage)] = walk(B0 + B1[:cut])
    assert first == (0, "batch")
    assert (position, damage.end, damage.is_tail) == (SIZE, SIZE + cut, True)


@pytest.mark.parametrize("zeros", [1, 100, 4096, 3 << 20])
def test_zeros_behind_the_last_batch_were_never_written_to(walk, zeros):
    [_, (position, damage)] = walk(B0 + bytes(zeros))
    assert (position, damage.is_tail, damage.is_zero, damage.size) == (SIZE, True, True, zeros)


def test_a_wrong_checksum_with_batches_behind_it_is_a_hole_as_long_as_the_batch(walk):
    found = walk(B0 + flipped(B1, 70) + B2)
    assert [position for position, _ in found] == [0, SIZE, 2 * SIZE]
    damage = found[1][1]
    assert (damage.end, damage.is_tail, damage.batch.size) == (2 * SIZE, False, SIZE)
    assert damage.reason.startswith("its CRC is 0x")


def test_a_wrong_checksum_at_the_end_is_a_tail(walk):
    assert walk(B0 + flipped(B1, 70))[1][1].is_tail


@pytest.mark.parametrize(("at", "reason"), [(8, "the batch there has"), (10, "the batch there has"), (16, "magic 18 is unknown")])
def test_a_broken_length_or_magic_hides_nothing_that_follows(walk, at, reason):
    found = walk(B0 + flipped(B1, at) + B2)
    assert [position for position, _ in found] == [0, SIZE, 2 * SIZE]
    assert found[1][1].reason.startswith(reason)


def test_a_length_too_small_for_any_batch_is_named(walk):
    found = walk(B0 + B1[:8] + (3).to_bytes(4, "big") + B1[12:] + B2)
    assert found[1][1].reason == "its size field says 3, and the smallest batch of magic 2 has 49"


def test_garbage_between_batches_is_one_hole(walk):
    found = walk(B0 + b"\xde\xad\xbe\xef" * 25 + B1)
    assert [(position, damage if damage == "batch" else (damage.end, damage.is_tail)) for position, damage in found] == [
        (0, "batch"),
        (SIZE, (SIZE + 100, False)),
        (SIZE + 100, "batch"),
    ]


def test_garbage_alone_is_a_tail_from_the_start(walk):
    [(position, damage)] = walk(b"\xff" * 1000)
    assert (position, damage.end, damage.is_tail) == (0, 1000, True)


def test_a_valid_batch_with_an_old_offset_is_no_batch_of_this_log(walk):
    assert [damage.reason for _, damage in walk(B0 + B1 + B0 + B2) if damage != "batch"] == [
        "it starts at offset 0, and the batch before it ends at 3"
    ]


def test_a_valid_batch_with_a_flipped_offset_does_not_make_the_rest_look_old(walk):
    found = walk(B0 + flipped(B1, 5) + B2)
    assert [position for position, _ in found] == [0, SIZE, 2 * SIZE]
    assert found[1][1].is_offset
    assert found[1][1].reason == "it starts at offset 1048578, where 2 is next and the batch behind it starts before that"


def test_a_batch_that_reaches_into_the_next_segment_is_refused(walk):
    assert walk(B0 + B1, max_offset=2)[1][1].reason == "it ends at offset 3, and 2 is the last that can be in this segment"


def test_offsets_are_taken_as_they_are_when_asked(walk):
    assert walk(B0 + B1 + B0 + B2, check_offsets=False) == [(at * SIZE, "batch") for at in range(4)]


def test_a_gap_in_the_offsets_is_no_damage(walk):
    assert walk(B0 + B2) == [(0, "batch"), (SIZE, "batch")]


def test_magic_0_1_and_2_follow_each_other_in_one_file(walk):
    old = [build_legacy([Record(0, -1, b"k", b"v")], magic=0), build_legacy([Record(1, 5, b"k", b"v")], magic=1, codec=Codec.GZIP)]
    assert [found for _, found in walk(b"".join(old) + B1)] == ["batch"] * 3


def test_the_limit_cuts_the_batch_it_falls_into(walk):
    found = walk(B0 + B1, end=SIZE + 20)
    assert found[0] == (0, "batch")
    assert found[1][1].is_tail


def test_a_large_batch_is_read_whole(walk, monkeypatch):
    monkeypatch.setattr(log_file, "CHUNK", 64)
    large = batch(2, 500)
    assert [found for _, found in walk(B0 + large + batch(502))] == ["batch"] * 3


def test_the_search_behind_damage_goes_on_from_window_to_window(walk, monkeypatch):
    monkeypatch.setattr(log_file, "WINDOW", 300)
    monkeypatch.setattr(log_file, "OVERLAP", 200)
    found = walk(B0 + b"\xee" * 5000 + B1)
    assert found[-1] == (SIZE + 5000, "batch")


def test_a_file_that_shrinks_while_it_is_read_is_named(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(B0 + B1)
    with LogFile(Disk(), str(path)) as log:
        os.truncate(path, 10)
        with pytest.raises(CorruptRecord, match=r"10 bytes at position 0, where 166 were; the file was cut meanwhile"):
            list(log.walk())


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").write_bytes(B0)
    (tmp_path / "00000000000000000000.log").symlink_to(tmp_path / "real")
    with pytest.raises(KafkaStorage, match="a symbolic link, where a regular file is expected"):
        LogFile(Disk(), str(tmp_path / "00000000000000000000.log"))
