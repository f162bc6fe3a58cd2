"""What Produce and TxnOffsetCommit answer about a transaction, by their version."""

from __future__ import annotations

import pytest

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import Admission, admit, answered_to_produce
from milepost.protocol.error_codes import ErrorCode
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def admitted(bench: Bench, admission: Admission, producer: Producer, *partitions, transactional_id: str = "tx"):
    answers: list[dict] = []
    admit(bench.coordinator, admission, transactional_id, producer, partitions, answers.append)
    assert len(answers) == 1
    return answers[0]


@pytest.mark.parametrize(
    ("version", "admission"),
    [(3, Admission.VERIFY), (10, Admission.VERIFY), (11, Admission.VERIFY_ABORTABLE), (12, Admission.ADD), (13, Admission.ADD)],
)
def test_produce_adds_partitions_from_version_12(version, admission):
    assert Admission.for_produce(version) is admission


@pytest.mark.parametrize(
    ("version", "admission"),
    [(0, Admission.VERIFY), (3, Admission.VERIFY), (4, Admission.VERIFY_ABORTABLE), (5, Admission.ADD)],
)
def test_txn_offset_commit_adds_its_partition_from_version_5(version, admission):
    assert Admission.for_txn_offset_commit(version) is admission


@pytest.mark.parametrize(
    ("admission", "error"),
    [(Admission.VERIFY, ErrorCode.INVALID_TXN_STATE), (Admission.VERIFY_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_added_is_refused_in_the_clients_words(bench, admission, error):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    assert admitted(bench, admission, producer, ORDERS_0, ORDERS_1) == {ORDERS_0: ErrorCode.NONE, ORDERS_1: error}


def test_a_partition_of_a_client_of_version_2_is_added_on_the_way(bench):
    producer = bench.producer()
    assert admitted(bench, Admission.ADD, producer, ORDERS_0) == {ORDERS_0: ErrorCode.NONE}
    assert bench.log.states("tx")[-1] == ("Ongoing", 0)


@pytest.mark.parametrize("admission", list(Admission))
def test_a_fenced_producer_is_told_of_its_epoch_in_every_version(bench, admission):
    old = bench.producer()
    bench.producer()
    assert admitted(bench, admission, old, ORDERS_0) == {ORDERS_0: ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.parametrize("admission", list(Admission))
def test_a_producer_that_nobody_knows_has_no_mapping(bench, admission):
    assert admitted(bench, admission, Producer(9, 0), ORDERS_0) == {ORDERS_0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize(
    ("admission", "error", "answer"),
    [
        (Admission.VERIFY, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (Admission.VERIFY_ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (Admission.ADD, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (Admission.ADD, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (Admission.ADD, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (Admission.VERIFY, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (Admission.VERIFY, ErrorCode.NONE, ErrorCode.NONE),
    ],
)
def test_what_only_means_not_now_makes_every_producer_try_again(admission, error, answer):
    assert answered_to_produce(error, admission) == answer
