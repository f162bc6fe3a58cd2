"""Transactions of version 2 (KIP-890): an epoch for every transaction."""

from __future__ import annotations

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.protocol.error_codes import ErrorCode
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, Marker


def test_version_2_raises_the_epoch_with_every_end_and_marks_with_the_raised_one(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    assert bench.end(producer, version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 1))
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, True)]
    assert bench.log.states("tx")[-2:] == [("PrepareCommit", 1), ("CompleteCommit", 1)]


def test_an_end_that_was_delayed_cannot_end_the_next_transaction(bench):
    first = bench.producer()
    bench.add(first, ORDERS_0, version=2)
    second = bench.end(first, version=2).producer
    bench.add(second, ORDERS_0, version=2)
    assert bench.end(first, version=2) == ProducerAnswer(ErrorCode.PRODUCER_FENCED)
    assert bench.state() == "Ongoing"


def test_an_end_whose_answer_got_lost_is_answered_again_with_the_raised_epoch(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    bench.end(producer, version=2)
    assert bench.end(producer, version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 1))
    assert len(bench.markers.written) == 1


def test_an_implicit_add_waits_until_the_last_transaction_has_ended(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    bench.markers.is_holding = True
    raised = bench.end(producer, version=2).producer
    answers: list[ErrorCode] = []
    bench.coordinator.add_partitions_implicitly("tx", raised, [ORDERS_1], answers.append)
    assert answers == []
    bench.markers.release()
    assert answers == [ErrorCode.NONE]
    assert bench.state() == "Ongoing"
    assert bench.log.values("tx")[-1].client_transaction_version == 2


def test_an_implicit_add_that_waited_100_ms_gets_51_and_is_answered_once(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    bench.markers.is_holding = True
    raised = bench.end(producer, version=2).producer
    answers: list[ErrorCode] = []
    bench.coordinator.add_partitions_implicitly("tx", raised, [ORDERS_1], answers.append)
    bench.timers.advance(99)
    assert answers == []
    bench.timers.advance(1)
    assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS]
    bench.markers.release()
    assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_an_implicit_add_that_waits_when_the_partition_goes_away_gets_not_coordinator(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    bench.markers.is_holding = True
    raised = bench.end(producer, version=2).producer
    answers: list[ErrorCode] = []
    bench.coordinator.add_partitions_implicitly("tx", raised, [ORDERS_1], answers.append)
    bench.coordinator.unload(bench.coordinator.partition_for("tx"))
    assert answers == [ErrorCode.NOT_COORDINATOR]


def test_two_implicit_adds_at_once_are_written_one_after_the_other(bench):
    producer = bench.producer()
    bench.log.is_holding = True
    answers: list[ErrorCode] = []
    bench.coordinator.add_partitions_implicitly("tx", producer, [ORDERS_0], answers.append)
    bench.coordinator.add_partitions_implicitly("tx", producer, [ORDERS_1], answers.append)
    bench.log.release()
    assert answers == [ErrorCode.NONE]
    bench.log.release()
    assert answers == [ErrorCode.NONE, ErrorCode.NONE]
    assert bench.coordinator.describe("tx").partitions == {ORDERS_0, ORDERS_1}
