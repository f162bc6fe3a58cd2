"""Transactions whose coordinator is asked before their first batch (KIP-890)."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.errors import InvalidTxnState, OutOfOrderSequence
from milepost.files import Disk
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.producer_state.verification import VerificationGuard
from tests.log.producer_state.managing import CLIENT, COORDINATOR, REPLICATION, write
from tests.log.producer_state.producer_batches import abort, commit, data


def test_guard_is_the_same_until_it_is_cleared(manager):
    assert manager.verification_guard(1) is None
    guard = manager.maybe_create_verification(1, 0, 0)
    assert manager.maybe_create_verification(1, 0, 0) is guard
    assert manager.verification_guard(1) is guard
    manager.clear_verification(1)
    assert manager.verification_guard(1) is None
    assert manager.maybe_create_verification(1, 0, 0) is not guard


def lowest_accepted(manager: ProducerStateManager, *, epoch: int = 0) -> int:
    """The largest first sequence that the verification lets through."""
    for sequence in range(20, -1, -1):
        try:
            manager.prepare_update(1, CLIENT).append(data(0, sequence=sequence, epoch=epoch, transactional=True))
        except OutOfOrderSequence:
            continue
        return sequence
    return -1


def test_lowest_waiting_sequence_falls_with_lower_ones_and_follows_a_newer_epoch(manager):
    manager.maybe_create_verification(1, 5, 0)
    assert lowest_accepted(manager) == 5
    manager.maybe_create_verification(1, 7, 0)
    assert lowest_accepted(manager) == 5
    manager.maybe_create_verification(1, 3, 0)
    assert lowest_accepted(manager) == 3
    manager.maybe_create_verification(1, 9, 1)
    assert lowest_accepted(manager) == 9
    manager.maybe_create_verification(1, 0, 0)
    assert lowest_accepted(manager) == 9


def test_later_batch_waits_for_the_one_being_verified(manager):
    manager.maybe_create_verification(1, 3, 0)
    with pytest.raises(OutOfOrderSequence, match="sequence 4, but the batch with sequence 3 is still being verified"):
        write(manager, data(0, sequence=4, transactional=True))
    write(manager, data(0, sequence=3, transactional=True))
    write(manager, data(1, sequence=4, transactional=True))
    assert manager.last_entry(1).last_sequence == 4


def test_first_batch_of_a_transaction_needs_the_registered_guard(manager):
    first = data(0, sequence=0, transactional=True)
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(InvalidTxnState, match=r"producer 1.*did not confirm"):
            manager.check_verification(first, origin, None)
    guard = manager.maybe_create_verification(1, 0, 0)
    for origin in (CLIENT, COORDINATOR):
        for wrong in (None, VerificationGuard()):
            with pytest.raises(InvalidTxnState):
                manager.check_verification(first, origin, wrong)
        manager.check_verification(first, origin, guard)


def test_only_transactional_data_from_outside_is_verified(manager):
    manager.check_verification(data(0, sequence=0), CLIENT, None)
    manager.check_verification(commit(0), COORDINATOR, None)
    manager.check_verification(data(0, sequence=0, transactional=True), REPLICATION, None)


def test_open_transaction_of_the_same_epoch_needs_no_guard(manager):
    write(manager, data(0, sequence=0, transactional=True))
    manager.check_verification(data(1, sequence=1, transactional=True), CLIENT, None)
    with pytest.raises(InvalidTxnState):
        manager.check_verification(data(1, sequence=0, epoch=1, transactional=True), CLIENT, None)


@pytest.mark.parametrize("batch", [data(0, sequence=0, transactional=True), abort(0)], ids=["data", "marker"])
def test_transactional_write_ends_the_verification(manager, batch):
    guard = manager.maybe_create_verification(1, 0, 0)
    write(manager, batch)
    assert manager.verification_guard(1) is None
    assert manager.maybe_create_verification(1, 0, 0) is not guard


def test_verification_expires_with_the_interval(tmp_path):
    manager = ProducerStateManager(str(tmp_path), Disk(), ManualClock(1000), expiration_ms=200)
    manager.maybe_create_verification(1, 0, 0)
    manager.remove_expired(1199)
    assert manager.verification_guard(1) is not None
    manager.remove_expired(1200)
    assert manager.verification_guard(1) is None
