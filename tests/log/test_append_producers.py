"""Appends of producers with an id: retries, gaps, epochs, transactions, verification."""

from __future__ import annotations

import pytest

from milepost.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    TransactionCoordinatorFenced,
)
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from tests.log.making import idempotent, log_in, marker, transactional

# Producers.


def test_retry_of_any_of_the_last_five_batches_gets_its_first_answer_again(tmp_path):
    log = log_in(tmp_path)
    for number in range(6):
        log.append_as_leader(idempotent(2 * number, 2))
    for number in range(1, 6):
        answer = log.append_as_leader(idempotent(2 * number, 2))
        assert (answer.first_offset, answer.last_offset, answer.is_duplicate) == (2 * number, 2 * number + 1, True)
    with pytest.raises(OutOfOrderSequence, match="starts at sequence 0, expected 12"):
        log.append_as_leader(idempotent(0, 2))
    assert log.end_offset == 12


def test_duplicate_of_a_batch_in_an_older_segment_is_known(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0))
    log.roll()
    assert log.append_as_leader(idempotent(0)).first_offset == 0


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (1, 3), (2, 2), (5, 1)], ids=["prefix", "overlap", "tail", "gap"])
def test_batch_that_overlaps_a_known_one_or_leaves_a_gap_is_refused(tmp_path, sequence, count):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, 4))
    with pytest.raises(OutOfOrderSequence) as refused:
        log.append_as_leader(idempotent(sequence, count))
    assert refused.value.code == 45
    assert log.end_offset == 4


def test_unknown_producer_may_start_at_any_sequence(tmp_path):
    log = log_in(tmp_path)
    assert log.append_as_leader(transactional(3, epoch=5)).first_offset == 0


def test_older_epoch_is_fenced_and_a_new_one_starts_at_sequence_zero(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch) as refused:
        log.append_as_leader(idempotent(1, epoch=0))
    assert refused.value.code == 47
    with pytest.raises(OutOfOrderSequence, match="expected 0"):
        log.append_as_leader(idempotent(1, epoch=2))
    log.append_as_leader(idempotent(0, epoch=2))
    assert log.end_offset == 2


def test_sequence_wraps_to_zero_behind_the_largest(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(2**31 - 2, 2))
    assert log.append_as_leader(idempotent(0)).first_offset == 2


def test_producers_do_not_disturb_each_other(tmp_path):
    log = log_in(tmp_path)
    for number in range(3):
        for producer_id in (1, 2, 900_000_000_000):
            log.append_as_leader(idempotent(number, producer_id=producer_id))
    assert sorted(log.producers.producers) == [1, 2, 900_000_000_000]
    assert log.append_as_leader(idempotent(1, producer_id=2)).first_offset == 4


def test_state_of_a_refused_batch_is_not_kept(tmp_path):
    log = log_in(tmp_path)
    with pytest.raises(RecordBatchTooLarge):
        log_in(tmp_path / "small", segment_bytes=100).append_as_leader(idempotent(0, size=200))
    log.append_as_leader(idempotent(0))
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(idempotent(2))
    assert log.append_as_leader(idempotent(1)).first_offset == 1


def test_plain_batch_inside_an_open_transaction_is_refused(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0))
    with pytest.raises(InvalidTxnState) as refused:
        log.append_as_leader(idempotent(1))
    assert refused.value.code == 48


def test_client_may_not_write_a_marker(tmp_path):
    with pytest.raises(InvalidRecord, match="a client may not write control batches"):
        log_in(tmp_path).append_as_leader(marker(ControlType.COMMIT))


def test_coordinators_marker_is_stored_as_it_is_whatever_the_topics_codec(tmp_path):
    log = log_in(tmp_path, compression_type="snappy")
    log.append_as_leader(transactional(0, 3))
    answer = log.append_as_leader(marker(ControlType.COMMIT), origin=AppendOrigin.COORDINATOR)
    assert (answer.first_offset, answer.valid_bytes) == (3, 78)
    [stored] = log.read(3, isolation="log end").batches
    assert (stored.is_control, stored.is_compressed) == (True, False)


def test_marker_of_an_older_coordinator_is_fenced_also_without_data(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(marker(ControlType.COMMIT, coordinator_epoch=2), origin=AppendOrigin.COORDINATOR)
    with pytest.raises(TransactionCoordinatorFenced) as refused:
        log.append_as_leader(marker(ControlType.COMMIT, coordinator_epoch=1), origin=AppendOrigin.COORDINATOR)
    assert refused.value.code == 52
    log.append_as_leader(transactional(0))
    with pytest.raises(TransactionCoordinatorFenced):
        log.append_as_leader(marker(ControlType.ABORT, coordinator_epoch=1), origin=AppendOrigin.COORDINATOR)


def test_aborted_transaction_gets_an_index_entry_in_the_segment_of_its_marker(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 3))
    log.roll()
    log.append_as_leader(marker(ControlType.ABORT), origin=AppendOrigin.COORDINATOR)
    first, second = log.segments
    assert first.txn_index.is_empty
    [aborted] = second.txn_index.transactions()
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (1, 0, 3, 4)


def test_committed_and_empty_transactions_leave_no_index(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0))
    log.append_as_leader(marker(ControlType.COMMIT), origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(marker(ControlType.ABORT), origin=AppendOrigin.COORDINATOR)
    assert log.segments.active.txn_index.is_empty
    assert not list((tmp_path / "topic-0").glob("*.txnindex"))


# Verification (KIP-890).


def test_first_batch_of_a_transaction_needs_the_guard_when_transactions_are_verified(tmp_path):
    log = log_in(tmp_path)
    log.owner.verifies_transactions = True
    with pytest.raises(InvalidTxnState):
        log.append_as_leader(transactional(0))
    guard = log.producers.maybe_create_verification(1, 0, 0)
    log.append_as_leader(transactional(0), verification_guard=guard)
    # The transaction is open now: nothing more is asked.
    log.append_as_leader(transactional(1))
    assert log.end_offset == 2


def test_lower_sequence_that_is_being_verified_must_come_first(tmp_path):
    log = log_in(tmp_path)
    log.owner.verifies_transactions = True
    guard = log.producers.maybe_create_verification(1, 2, 0)
    assert log.producers.maybe_create_verification(1, 0, 0) is guard
    with pytest.raises(OutOfOrderSequence, match="sequence 0 is still being verified"):
        log.append_as_leader(transactional(2), verification_guard=guard)
    log.owner.verifies_transactions = False
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(transactional(2), verification_guard=guard)
    assert log.append_as_leader(transactional(0), verification_guard=guard).first_offset == 0
