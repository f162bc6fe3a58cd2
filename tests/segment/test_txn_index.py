"""The transaction index: aborted transactions in the order of their markers."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptIndex, InvalidArgument
from milepost.files import Disk, HandlePool
from milepost.segment.txn_index import AbortedTransaction, TxnIndex

A = AbortedTransaction(0, 0, 10, 11)
B = AbortedTransaction(1, 5, 15, 13)
C = AbortedTransaction(2, 18, 35, 25)
D = AbortedTransaction(3, 32, 50, 40)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "00000000000000000000.txnindex"


@pytest.fixture
def txn_index(path):
    def make(*transactions, base=0):
        index = TxnIndex(HandlePool(Disk()), str(path), base, path.stat().st_size if path.exists() else 0)
        for transaction in transactions:
            index.append(transaction)
        return index

    return make


def test_file_appears_with_the_first_aborted_transaction(txn_index, path):
    index = txn_index()
    assert index.is_empty
    assert index.transactions() == []
    assert not path.exists()
    index.append(A)
    assert not index.is_empty
    assert path.stat().st_size == 34


def test_entry_is_version_producer_first_last_and_last_stable_offset(txn_index, path):
    txn_index(AbortedTransaction(983493, 137, 299, 200))
    assert path.read_bytes() == bytes.fromhex("0000 00000000000f01c5 0000000000000089 000000000000012b 00000000000000c8")
    assert txn_index().transactions() == [AbortedTransaction(983493, 137, 299, 200, version=0)]


def test_entries_of_before_a_restart_are_kept_and_appends_go_behind_them(txn_index):
    txn_index(A, B, C, D).close()
    fifth = AbortedTransaction(4, 51, 60, 61)
    again = txn_index(fifth)
    assert again.transactions() == [A, B, C, D, fifth]


@pytest.mark.parametrize("last_offset", [15, 14])
def test_transaction_that_does_not_end_behind_the_last_one_is_refused(txn_index, last_offset):
    index = txn_index(A, B)
    with pytest.raises(InvalidArgument, match=f"ends at {last_offset}, not above 15"):
        index.append(AbortedTransaction(2, 12, last_offset, 13))
    assert index.transactions() == [A, B]


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        (0, 100, [A, B, C, D], False),
        (0, 32, [A, B, C], True),
        (0, 35, [A, B, C, D], True),
        (10, 35, [A, B, C, D], True),
        (11, 35, [B, C, D], True),
        (20, 41, [C, D], False),
        (51, 100, [], False),
    ],
)
def test_collect_finds_what_overlaps_and_says_whether_later_segments_can_hold_more(
    txn_index, fetch_offset, upper_bound, found, is_complete
):
    search = txn_index(A, B, C, D).collect(fetch_offset, upper_bound)
    assert (search.transactions, search.is_complete) == (found, is_complete)


@pytest.mark.parametrize(("offset", "kept"), [(51, [A, B, C, D]), (50, [A, B, C]), (49, [A, B, C]), (15, [A]), (10, []), (0, [])])
def test_truncate_drops_transactions_that_end_at_or_behind_the_offset(txn_index, path, offset, kept):
    index = txn_index(A, B, C, D)
    index.truncate_to(offset)
    assert index.transactions() == kept
    assert path.stat().st_size == 34 * len(kept)


def test_append_after_a_cut_may_end_where_a_dropped_one_ended(txn_index):
    index = txn_index(A, B, C)
    index.truncate_to(15)
    index.append(B)
    assert index.transactions() == [A, B]


def test_reset_empties_the_file(txn_index, path):
    index = txn_index(A, B)
    index.reset()
    assert index.is_empty
    assert path.read_bytes() == b""
    index.append(A)
    assert index.transactions() == [A]


def test_reset_of_an_index_without_file_makes_none(txn_index, path):
    txn_index().reset()
    assert not path.exists()


def test_partial_entry_at_the_end_is_ignored_and_overwritten(txn_index, path):
    txn_index(A, B).close()
    path.write_bytes(path.read_bytes() + bytes(10))
    index = txn_index()
    assert index.transactions() == [A, B]
    index.append(C)
    assert path.stat().st_size == 102
    assert index.transactions() == [A, B, C]


def test_unknown_version_is_told_by_the_high_byte_alone_as_kafka_does(txn_index, path):
    txn_index(A).close()
    content = path.read_bytes()
    path.write_bytes(b"\x00\x07" + content[2:])
    assert [transaction.version for transaction in txn_index().transactions()] == [7]
    path.write_bytes(b"\x01\x00" + content[2:])
    with pytest.raises(CorruptIndex, match="entry 0 has version 256; version 0 is the only one known"):
        txn_index().transactions()


def test_check_refuses_a_transaction_that_ends_before_the_segment(txn_index):
    index = txn_index(A, B, base=10)
    index.check()
    index.base_offset = 11
    with pytest.raises(CorruptIndex, match="ends at 10, before the segment starts at 11"):
        index.check()


def test_rename_moves_the_file_if_there_is_one(txn_index, path):
    renamed = str(path) + ".deleted"
    index = txn_index()
    index.rename(renamed)
    assert index.path == renamed
    index.append(A)
    index.rename(str(path))
    assert path.stat().st_size == 34
    assert index.transactions() == [A]


def test_delete_says_whether_there_was_a_file(txn_index, path):
    assert txn_index().delete() is False
    index = txn_index(A)
    assert index.delete() is True
    assert not path.exists()
