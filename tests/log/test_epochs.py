"""The leader epoch cache and its file."""

from __future__ import annotations

import logging

import pytest

from milepost.errors import CorruptCheckpoint, InvalidArgument
from milepost.files import Disk, Overlay
from milepost.log.epochs import EpochEntry, LeaderEpochCache
from tests.golden_fixture import all_partitions

UNDEFINED = (-1, -1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leader-epoch-checkpoint"


@pytest.fixture
def cache(path):
    """`cache((2, 6), (3, 8))`: a cache with these entries, on disk."""

    def make(*entries: tuple[int, int]) -> LeaderEpochCache:
        made = LeaderEpochCache(str(path), Disk())
        for epoch, offset in entries:
            made.assign(epoch, offset)
        return made

    return make


def pairs(cache: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in cache.entries]


# Assigning.


def test_first_epoch(cache):
    epochs = cache((2, 10))
    assert epochs.latest_epoch == 2
    assert epochs.end_offset_for(2, 11) == (2, 11)
    assert pairs(epochs) == [(2, 10)]


def test_same_epoch_at_a_later_offset_changes_nothing(cache, path):
    epochs = cache((2, 10))
    before = path.stat().st_ino
    epochs.assign(2, 10)
    epochs.assign(2, 99)
    assert pairs(epochs) == [(2, 10)]
    assert path.stat().st_ino == before


@pytest.mark.parametrize(
    ("entries", "assigned", "expected"),
    [
        ([(2, 6)], (2, 5), [(2, 5)]),
        ([(2, 6)], (3, 5), [(3, 5)]),
        ([(2, 6)], (3, 6), [(3, 6)]),
        ([(2, 6)], (1, 7), [(1, 7)]),
        ([(2, 6)], (1, 5), [(1, 5)]),
        ([(0, 0), (2, 6), (5, 9)], (3, 7), [(0, 0), (2, 6), (3, 7)]),
        ([(5, 11), (6, 12), (7, 13)], (7, 12), [(5, 11), (7, 12)]),
    ],
)
def test_assignment_overrules_later_epochs_and_later_offsets(cache, entries, assigned, expected):
    epochs = cache(*entries)
    epochs.assign(*assigned)
    assert pairs(epochs) == expected


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1), (-1, -1)])
def test_negative_assignment_is_a_mistake(cache, epoch, offset):
    with pytest.raises(InvalidArgument, match="neither can be negative"):
        cache().assign(epoch, offset)


def test_growing_epochs(cache):
    epochs = cache(*((offset // 3, offset) for offset in range(9)))
    assert pairs(epochs) == [(0, 0), (1, 3), (2, 6)]
    assert [epochs.end_offset_for(epoch, 9) for epoch in (0, 1, 2)] == [(0, 3), (1, 6), (2, 9)]


# Where an epoch ends.


def test_undefined_epoch_has_no_end(cache):
    assert cache().end_offset_for(-1, 0) == UNDEFINED
    assert cache((2, 11), (3, 12)).end_offset_for(-1, 14) == UNDEFINED


def test_empty_cache_knows_nothing(cache):
    epochs = cache()
    assert epochs.end_offset_for(0, 5) == UNDEFINED
    assert epochs.end_offset_for(7, 5) == UNDEFINED
    assert epochs.latest_epoch is None
    assert epochs.earliest is None
    assert epochs.latest is None
    assert epochs.is_empty


def test_epoch_above_all_is_unknown(cache):
    assert cache((2, 11)).end_offset_for(3, 20) == UNDEFINED


def test_epoch_below_all_ends_where_the_first_begins(cache):
    assert cache((5, 11), (6, 12)).end_offset_for(4, 20) == (4, 11)


def test_missing_epoch_is_answered_by_the_one_below(cache):
    epochs = cache((0, 10), (2, 13), (4, 17))
    assert [epochs.end_offset_for(epoch, 20) for epoch in (1, 2, 3, 4)] == [(0, 13), (2, 17), (2, 17), (4, 20)]


def test_epoch_that_was_overruled_ends_where_its_successor_begins(cache):
    epochs = cache((5, 11), (6, 12), (7, 13), (7, 12))
    assert epochs.end_offset_for(5, 20) == (5, 12)
    assert epochs.end_offset_for(6, 20) == (5, 12)


# Cutting.


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (1, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_cut_at_the_start(cache, path, offset, expected):
    epochs = cache((2, 6), (3, 8), (4, 11))
    epochs.truncate_from_start(offset)
    assert pairs(epochs) == expected
    assert pairs(LeaderEpochCache(str(path), Disk())) == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (8, [(2, 6)]),
        (9, [(2, 6), (3, 8)]),
        (11, [(2, 6), (3, 8)]),
        (12, [(2, 6), (3, 8), (4, 11)]),
        (6, []),
        (0, []),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_cut_at_the_end(cache, path, offset, expected):
    epochs = cache((2, 6), (3, 8), (4, 11))
    epochs.truncate_from_end(offset)
    assert pairs(epochs) == expected
    assert epochs.latest_epoch == (expected[-1][0] if expected else None)
    assert pairs(LeaderEpochCache(str(path), Disk())) == expected


def test_cuts_that_change_nothing_write_nothing(cache, path):
    epochs = cache((2, 6), (3, 8))
    before = path.stat().st_ino
    epochs.truncate_from_start(6)
    epochs.truncate_from_start(0)
    epochs.truncate_from_end(9)
    assert path.stat().st_ino == before


def test_both_cuts_leave_the_middle_in_the_file(cache, path):
    epochs = cache((2, 6), (3, 8), (4, 11))
    epochs.truncate_from_end(11)
    epochs.truncate_from_start(8)
    assert path.read_text() == "0\n1\n3 8\n"


def test_cuts_of_an_empty_cache_do_nothing(cache, path):
    epochs = cache()
    epochs.truncate_from_start(7)
    epochs.truncate_from_end(7)
    epochs.clear()
    assert epochs.is_empty
    assert path.read_bytes() == b""


def test_cleared_cache_is_empty_on_disk_too(cache, path):
    epochs = cache((2, 6), (3, 8))
    epochs.clear()
    assert epochs.is_empty
    assert path.read_text() == "0\n0\n"


# Looking up.


def test_first_and_last_epoch(cache):
    epochs = cache((2, 6), (4, 11))
    assert (epochs.earliest, epochs.latest) == (EpochEntry(2, 6), EpochEntry(4, 11))


# The file.


def test_new_log_has_an_empty_file(cache, path):
    cache()
    assert path.read_bytes() == b""


def test_file_has_a_line_per_epoch(cache, path):
    cache((0, 0), (3, 1250))
    assert path.read_bytes() == b"0\n2\n0 0\n3 1250\n"


def test_reopened_cache_has_the_same_entries(cache, path):
    cache((2, 10), (5, 13))
    reopened, damaged = LeaderEpochCache.load(str(path), Disk())
    assert pairs(reopened) == [(2, 10), (5, 13)]
    assert not damaged


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n"])
def test_file_without_entries_is_an_empty_cache(path, content):
    path.write_bytes(content)
    reopened, damaged = LeaderEpochCache.load(str(path), Disk())
    assert reopened.is_empty
    assert not damaged


@pytest.mark.parametrize(
    "content",
    [
        b"1\n1\n0 0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0 0\n1 5\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\nx 0\n",
        b"0\n1\n-1 0\n",
        b"0\n2\n3 0\n3 5\n",
        b"0\n2\n3 5\n4 5\n",
        b"0\n2\n3 5\n2 9\n",
        b"0\n1\n0 12",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xfe",
    ],
)
def test_damaged_file_is_kept_aside_and_the_cache_starts_empty(path, content, caplog):
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match="leader-epoch-checkpoint"):
        LeaderEpochCache.read(str(path), Disk())
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        epochs, damaged = LeaderEpochCache.load(str(path), Disk())
    assert damaged
    assert epochs.is_empty
    assert path.with_name("leader-epoch-checkpoint.bad").read_bytes() == content
    assert "leader-epoch-checkpoint.bad" in caplog.text
    epochs.assign(0, 0)
    assert path.read_text() == "0\n1\n0 0\n"
    assert not LeaderEpochCache.load(str(path), Disk())[1]


def test_damaged_file_stays_until_the_epochs_are_learnt_again(path):
    path.write_bytes(b"garbage")
    LeaderEpochCache.load(str(path), Disk())
    epochs, damaged = LeaderEpochCache.load(str(path), Disk())
    assert damaged
    epochs.replace([EpochEntry(0, 0), EpochEntry(3, 1250)])
    assert path.read_bytes() == b"0\n2\n0 0\n3 1250\n"
    assert (epochs.latest_epoch, epochs.end_offset_for(0, 2000)) == (3, (0, 1250))
    assert LeaderEpochCache.load(str(path), Disk())[0].entries == epochs.entries


def test_reader_of_a_damaged_file_leaves_it_alone(path, tmp_path):
    path.write_bytes(b"garbage")
    epochs, damaged = LeaderEpochCache.load(str(path), Overlay())
    epochs.assign(1, 0)
    assert damaged
    assert [file.name for file in tmp_path.iterdir()] == ["leader-epoch-checkpoint"]
    assert path.read_bytes() == b"garbage"


def test_epoch_that_cannot_be_written_is_not_remembered(cache, path, monkeypatch):
    epochs = cache((2, 6))

    def broken(self, source, target):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Disk, "rename", broken)
    with pytest.raises(OSError, match="Input/output"):
        epochs.assign(3, 9)
    assert pairs(epochs) == [(2, 6)]
    assert path.read_text() == "0\n1\n2 6\n"


@pytest.mark.parametrize(("case", "partition"), list(all_partitions()))
def test_epochs_of_real_brokers(golden, case, partition):
    directory = golden.partition(case, partition)
    expected = golden.expected(case, partition).get("leaderEpochs")
    found = LeaderEpochCache.read(str(directory / "leader-epoch-checkpoint"), Disk())
    assert [[entry.epoch, entry.start_offset] for entry in found] == (expected or [])


@pytest.mark.parametrize(("case", "partition"), list(all_partitions("leader_epochs")))
def test_ends_of_epochs_as_a_real_broker_answered(golden, case, partition):
    live = golden.expected(case, partition)["live"]
    epochs = LeaderEpochCache(str(golden.partition(case, partition) / "leader-epoch-checkpoint"), Overlay())
    assert len(live["epochEnd"]) == 31
    for asked, epoch, end_offset, _ in live["epochEnd"]:
        assert epochs.end_offset_for(asked, live["latest"]) == (epoch, end_offset)


def test_what_is_written_after_a_move_is_written_there(cache, path, tmp_path):
    epochs = cache((2, 10))
    (tmp_path / "gone").mkdir()
    epochs.move_to(str(tmp_path / "gone"))
    epochs.assign(3, 20)
    assert path.read_text() == "0\n1\n2 10\n"
    assert (tmp_path / "gone" / path.name).read_text() == "0\n2\n2 10\n3 20\n"
