"""One producer: the window of five batches, and what its next batch must be like."""

from __future__ import annotations

import logging

import pytest

from milepost.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from milepost.log.producer_state.producer_entry import (
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppend,
    ProducerEntry,
)
from milepost.record.batch import RecordBatch
from milepost.record.builder import build_batch, empty_batch
from milepost.record.records import Record
from tests.log.producer_state.producer_batches import abort, commit, data

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
RAFT_LEADER = AppendOrigin.RAFT_LEADER
MAX_SEQUENCE = 2147483647


def entry_after(*batches: RecordBatch, origin: AppendOrigin = REPLICATION) -> ProducerEntry:
    """A producer that wrote these batches, each in an append of its own."""
    entry = ProducerEntry(1)
    for batch in batches:
        append = ProducerAppend(1, entry, origin)
        append.append(batch)
        entry.merge(append.entry)
    return entry


def append(entry: ProducerEntry | None, batch: RecordBatch, origin: AppendOrigin = CLIENT) -> ProducerAppend:
    prepared = ProducerAppend(1, entry, origin)
    prepared.append(batch)
    return prepared


# Sequences.


def test_batch_with_the_next_sequence_is_accepted():
    entry = entry_after(data(0, 4, sequence=0))
    assert append(entry, data(5, sequence=5)).entry.last_sequence == 5


@pytest.mark.parametrize("sequence", [3, 4, 6, 100])
def test_batch_behind_a_gap_or_overlapping_the_newest_is_out_of_order(sequence):
    entry = entry_after(data(0, 4, sequence=0))
    with pytest.raises(OutOfOrderSequence, match=rf"offset 5 starts at sequence {sequence}, expected 5"):
        append(entry, data(5, sequence=sequence))


def test_sequence_0_follows_the_largest_one():
    entry = entry_after(data(0, sequence=MAX_SEQUENCE))
    assert append(entry, data(1, sequence=0)).entry.last_sequence == 0
    with pytest.raises(OutOfOrderSequence, match="starts at sequence 1, expected 0"):
        append(entry, data(1, sequence=1))


def test_batch_that_wraps_around_knows_its_first_sequence():
    entry = entry_after(data(2000, 2019, sequence=MAX_SEQUENCE - 9))
    assert entry.batches[0] == BatchMetadata(last_sequence=10 - 1, last_offset=2019, offset_delta=19, timestamp=1000)
    assert entry.first_sequence == MAX_SEQUENCE - 9
    assert append(entry, data(2020, sequence=10)).entry.last_sequence == 10


def test_unknown_producer_may_start_at_any_sequence():
    assert append(None, data(0, sequence=3)).entry.last_sequence == 3
    assert append(None, data(0, sequence=3, epoch=7, transactional=True)).entry.epoch == 7


def test_new_epoch_starts_at_0_and_forgets_the_batches_of_the_old_one():
    entry = entry_after(data(0, 4, sequence=0))
    with pytest.raises(OutOfOrderSequence, match=r"first batch of epoch 1 \(offset 5\) starts at sequence 5, expected 0"):
        append(entry, data(5, sequence=5, epoch=1))
    entry.merge(append(entry, data(5, sequence=0, epoch=1)).entry)
    assert (entry.epoch, list(entry.batches)) == (1, [BatchMetadata(0, 5, 0, 1000)])


def test_two_batches_of_one_append_are_checked_one_against_the_other():
    prepared = ProducerAppend(1, entry_after(data(0, sequence=0)), CLIENT)
    prepared.append(data(1, 2, sequence=1))
    prepared.append(data(3, sequence=3))
    with pytest.raises(OutOfOrderSequence, match="starts at sequence 5, expected 4"):
        prepared.append(data(4, sequence=5))


@pytest.mark.parametrize("origin", [COORDINATOR, REPLICATION, RAFT_LEADER])
def test_only_clients_are_held_to_their_sequences(origin):
    entry = entry_after(data(0, sequence=0))
    assert append(entry, data(1, sequence=17), origin).entry.last_sequence == 17


def test_coordinator_may_write_without_sequences():
    batch = data(99, epoch=15)
    batch.base_sequence = -1
    entry = entry_after(batch, origin=COORDINATOR)
    assert (entry.epoch, entry.first_sequence, entry.last_sequence, entry.last_data_offset) == (15, -1, -1, 99)
    assert append(entry, batch, COORDINATOR).entry.last_sequence == -1


def test_offsets_not_assigned_yet_are_counted_from_the_first_offset_given():
    prepared = ProducerAppend(1, None, CLIENT)
    prepared.append(data(0, 4, sequence=0, transactional=True), first_offset=100)
    assert (prepared.entry.last_data_offset, prepared.entry.last_offset_delta) == (104, 4)
    assert prepared.started == [100]


# Epochs.


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR, RAFT_LEADER])
def test_old_epoch_is_refused(origin):
    entry = entry_after(data(0, epoch=5))
    with pytest.raises(InvalidProducerEpoch, match="offset 1 has epoch 4, but epoch 5"):
        append(entry, data(1, epoch=4), origin)
    with pytest.raises(InvalidProducerEpoch, match="offset 1 has epoch 4, but epoch 5"):
        append(entry, commit(1, epoch=4), origin)


def test_old_epoch_is_kept_with_a_warning_when_it_is_replicated(caplog):
    entry = entry_after(data(0, epoch=5))
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        entry.merge(append(entry, data(1, epoch=4), REPLICATION).entry)
    assert entry.epoch == 4
    assert "has epoch 4, but epoch 5" in caplog.text


def test_producer_known_by_a_marker_only_must_start_at_0_in_its_epoch():
    entry = entry_after(abort(0, epoch=2))
    assert (entry.epoch, entry.last_sequence, entry.last_data_offset) == (2, -1, -1)
    with pytest.raises(InvalidProducerEpoch):
        append(entry, data(1, sequence=0, epoch=0))
    with pytest.raises(OutOfOrderSequence, match="starts at sequence 17, expected 0"):
        append(entry, data(1, sequence=17, epoch=2))
    assert append(entry, data(1, sequence=0, epoch=2)).entry.last_sequence == 0


# The window.


def test_window_holds_the_last_five_batches():
    entry = entry_after(*(data(offset, sequence=offset) for offset in range(7)))
    assert [batch.last_offset for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert (entry.first_sequence, entry.batches[0].first_offset) == (2, 2)
    assert (entry.last_sequence, entry.last_data_offset) == (6, 6)


def test_duplicate_of_any_of_the_five_is_found_and_an_older_one_is_not():
    entry = entry_after(*(data(10 * n, 10 * n + 2, sequence=3 * n) for n in range(6)))
    found = [entry.find_duplicate(data(999, 1001, sequence=3 * n)) for n in range(6)]
    assert [batch and batch.first_offset for batch in found] == [None, 10, 20, 30, 40, 50]


def test_duplicate_needs_both_sequences_and_the_epoch():
    entry = entry_after(data(0, 4, sequence=10))
    assert entry.find_duplicate(data(0, 4, sequence=10)) == BatchMetadata(14, 4, 4, 1000)
    assert entry.find_duplicate(data(0, 3, sequence=11)) is None
    assert entry.find_duplicate(data(0, 3, sequence=10)) is None
    assert entry.find_duplicate(data(0, 4, sequence=10, epoch=1)) is None


def test_duplicate_that_wraps_around_is_found():
    entry = entry_after(data(0, 3, sequence=MAX_SEQUENCE - 1))
    assert entry.find_duplicate(data(50, 53, sequence=MAX_SEQUENCE - 1)) == BatchMetadata(1, 3, 3, 1000)


# Transactions.


def test_transaction_starts_at_the_first_transactional_batch_and_a_commit_ends_it():
    prepared = ProducerAppend(1, None, CLIENT)
    assert prepared.append(data(16, 20, sequence=0, transactional=True)) is None
    assert prepared.append(data(26, 30, sequence=5, transactional=True, timestamp=2000)) is None
    assert prepared.started == [16]
    assert prepared.entry.current_txn_first_offset == 16
    assert prepared.append(commit(40, coordinator_epoch=15, timestamp=3000)) == CompletedTransaction(1, 16, 40, False)
    entry = prepared.entry
    assert (entry.current_txn_first_offset, entry.coordinator_epoch, entry.last_timestamp) == (None, 15, 3000)
    assert (entry.first_sequence, entry.last_sequence) == (0, 9)
    assert (entry.batches[0].first_offset, entry.last_data_offset) == (16, 30)


def test_abort_completes_the_transaction_as_aborted():
    entry = entry_after(data(8, sequence=0, transactional=True))
    assert ProducerAppend(1, entry, COORDINATOR).append(abort(11)) == CompletedTransaction(1, 8, 11, True)


def test_marker_without_data_completes_nothing():
    assert ProducerAppend(1, None, COORDINATOR).append(commit(7)) is None


def test_abort_that_fences_with_a_higher_epoch_clears_the_batches():
    entry = entry_after(data(0, sequence=0, transactional=True), abort(1, epoch=1))
    assert (entry.epoch, entry.last_data_offset, list(entry.batches)) == (1, -1, [])
    assert entry.current_txn_first_offset is None


def test_plain_batch_inside_a_transaction_is_refused():
    entry = entry_after(data(0, sequence=0, transactional=True))
    with pytest.raises(InvalidTxnState, match=r"offset 1 is not transactional.*transaction from offset 0 is still open"):
        append(entry, data(1, sequence=1))


def test_plain_batch_inside_a_transaction_is_kept_when_it_is_replicated(caplog):
    entry = entry_after(data(0, sequence=0, transactional=True))
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        entry.merge(append(entry, data(1, sequence=1), REPLICATION).entry)
    assert (entry.current_txn_first_offset, entry.last_data_offset) == (0, 1)
    assert "is not transactional" in caplog.text


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR, RAFT_LEADER])
def test_marker_of_an_older_coordinator_is_fenced(origin):
    entry = entry_after(commit(100, coordinator_epoch=1))
    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 0, but epoch 1"):
        append(entry, commit(101, coordinator_epoch=0), origin)


def test_marker_of_an_older_coordinator_is_kept_when_it_is_replicated():
    entry = entry_after(commit(100, coordinator_epoch=1), commit(101, coordinator_epoch=0))
    assert entry.coordinator_epoch == 0


def test_emptied_marker_says_nothing():
    prepared = ProducerAppend(1, None, REPLICATION)
    assert prepared.append(RecordBatch(empty_batch(commit(40)))) is None
    assert not prepared.is_changed


def test_emptied_data_batch_still_gives_its_sequences():
    prepared = append(None, RecordBatch(empty_batch(data(5, 9, sequence=20))), REPLICATION)
    assert prepared.entry.batches[0][:3] == (24, 9, 4)


def test_control_record_of_another_kind_is_passed_over():
    leader_change = build_batch(
        [Record(3, 0, b"\0\0\0\2", b"\0\0")], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True
    )
    prepared = ProducerAppend(1, None, REPLICATION)
    assert prepared.append(RecordBatch(leader_change)) is None
    assert not prepared.is_changed


# Nothing is known before it is applied.


def test_append_on_the_side_changes_nothing_of_what_is_known():
    entry = entry_after(data(0, sequence=0))
    prepared = append(entry, data(1, sequence=1, transactional=True))
    assert (entry.last_sequence, entry.current_txn_first_offset) == (0, None)
    entry.merge(prepared.entry)
    assert (entry.last_sequence, entry.current_txn_first_offset) == (1, 1)


def test_producer_expires_after_the_interval_unless_its_transaction_is_open():
    entry = entry_after(data(0, timestamp=1000))
    assert not entry.is_expired(1000 + 199, 200)
    assert entry.is_expired(1000 + 200, 200)
    entry = entry_after(data(0, timestamp=1000, transactional=True))
    assert not entry.is_expired(10**15, 200)
