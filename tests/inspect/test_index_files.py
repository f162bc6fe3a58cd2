"""Index files as they lie on disk: entries, unused slots, bytes that make no entry."""

from __future__ import annotations

import pytest

from milepost.files import Disk
from milepost.inspect.index_files import offset_entries, read_offset_index, read_time_index, read_txn_index, time_entries
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction

DISK = Disk()
# The articles' examples: offset 22 of a segment with base 0 is at byte 656; time 1526384718283 came with offset 28.
OFFSET_22 = bytes.fromhex("00000016 00000290")
TIME_OF_28 = bytes.fromhex("00000163639e71cb 0000001c")
ABORTED = bytes.fromhex("0000 0000000000000001 0000000000000000 000000000000001d 0000000000000008")


@pytest.fixture
def file(tmp_path):
    def written(content):
        path = tmp_path / "00000000000000000251.index"
        path.write_bytes(content)
        return str(path)

    return written


def test_entries_are_shown_with_absolute_offsets(file):
    assert list(offset_entries(read_offset_index(DISK, file(OFFSET_22), 251))) == [OffsetPosition(273, 656)]
    assert list(time_entries(read_time_index(DISK, file(TIME_OF_28), 251))) == [TimestampOffset(1526384718283, 279)]


@pytest.mark.parametrize("zeros", [8, 80, 1024])
def test_zeros_behind_the_entries_are_slots_not_used_yet(file, zeros):
    index = read_offset_index(DISK, file(OFFSET_22 + bytes(zeros)), 0)
    assert (index.entries, index.unused, index.odd) == (1, zeros // 8, 0)


def test_an_entry_that_ends_in_zeros_is_an_entry(file):
    index = read_time_index(DISK, file(TIME_OF_28 + bytes.fromhex("00000163639e7200 00000000") + bytes(24)), 0)
    assert (index.entries, index.unused) == (2, 2)


def test_bytes_that_make_no_whole_entry_are_counted(file):
    index = read_offset_index(DISK, file(OFFSET_22 + b"\1\2\3"), 0)
    assert (index.entries, index.odd) == (1, 3)


def test_an_empty_file_has_no_entries(file):
    index = read_offset_index(DISK, file(b""), 0)
    assert (index.entries, index.unused, index.odd) == (0, 0, 0)


def test_transaction_entries_keep_their_version_and_a_partial_one_is_counted(file):
    entries, odd = read_txn_index(DISK, file(ABORTED + ABORTED[:20]))
    assert entries == [AbortedTransaction(1, 0, 29, 8, 0)]
    assert odd == 20
