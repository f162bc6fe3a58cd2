"""The transaction coordinator, request by request, with a log in memory."""

from __future__ import annotations

import pytest

from milepost.coordinator.transactions.transaction import NO_PRODUCER, Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.errors import KafkaStorage
from milepost.protocol.error_codes import ErrorCode
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, START_MS, Marker

# Producer ids.


def test_a_producer_without_a_transactional_id_gets_a_new_id_each_time_and_nothing_is_written(bench):
    assert bench.init(None, 0).producer == Producer(1000, 0)
    assert bench.init(None, 0).producer == Producer(1001, 0)
    assert bench.log.partitions == {}


def test_a_new_transactional_id_gets_epoch_0_and_is_written_before_it_is_answered(bench):
    bench.log.is_holding = True
    answers: list[ProducerAnswer] = []
    bench.coordinator.init_producer_id("tx", 60_000, None, answers.append)
    assert answers == []
    bench.log.release()
    assert answers == [ProducerAnswer(ErrorCode.NONE, Producer(1000, 0))]
    assert bench.log.states("tx") == [("Empty", 0)]


def test_the_same_transactional_id_again_keeps_the_producer_id_and_raises_the_epoch(bench):
    assert bench.producer() == Producer(1000, 0)
    assert bench.producer() == Producer(1000, 1)


def test_an_empty_transactional_id_is_an_invalid_request(bench):
    assert bench.init("") == ProducerAnswer(ErrorCode.INVALID_REQUEST, NO_PRODUCER)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 99_999_999])
def test_a_timeout_outside_1_to_the_maximum_is_refused(bench, timeout_ms):
    assert bench.init("tx", timeout_ms) == ProducerAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_a_timeout_of_1_and_of_the_maximum_is_accepted(bench, timeout_ms):
    assert bench.init("tx", timeout_ms).error == ErrorCode.NONE


def test_an_id_of_a_partition_that_is_not_here_gets_not_coordinator(bench):
    producer = bench.producer()
    bench.coordinator.unload(bench.coordinator.partition_for("tx"))
    assert bench.init() == ProducerAnswer(ErrorCode.NOT_COORDINATOR)
    assert bench.add(producer, ORDERS_0) == ErrorCode.NOT_COORDINATOR
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NOT_COORDINATOR)
    assert bench.coordinator.verify("tx", producer, [ORDERS_0]) == {ORDERS_0: ErrorCode.NOT_COORDINATOR}
    assert bench.state() == "NOT_COORDINATOR"


def test_when_no_producer_ids_can_be_claimed_the_client_asks_again(bench):
    def fail() -> int:
        raise KafkaStorage("disk full")

    bench.coordinator._allocate_producer_id = fail
    assert bench.init(None) == ProducerAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.init("tx") == ProducerAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_two_inits_of_a_new_id_at_once_give_one_producer_and_51(bench):
    bench.log.is_holding = True
    answers: list[ProducerAnswer] = []
    bench.coordinator.init_producer_id("tx", 60_000, None, answers.append)
    bench.coordinator.init_producer_id("tx", 60_000, None, answers.append)
    bench.log.release()
    assert answers == [ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS), ProducerAnswer(ErrorCode.NONE, Producer(1000, 0))]


@pytest.mark.parametrize(
    ("log_error", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_log_that_refuses_changes_nothing_and_never_answers_minus_1(bench, log_error, answered):
    bench.log.error = log_error
    assert bench.init() == ProducerAnswer(answered)
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"
    bench.log.error = 0
    producer = bench.producer()
    bench.log.error = log_error
    assert bench.add(producer, ORDERS_0) == answered
    assert bench.state() == "Empty"
    bench.log.error = 0
    assert bench.add(producer, ORDERS_0) == ErrorCode.NONE
    bench.log.error = log_error
    assert bench.end(producer) == ProducerAnswer(answered)
    assert bench.state() == "Ongoing"
    assert bench.markers.written == []
    bench.log.error = 0
    assert bench.end(producer).error == ErrorCode.NONE


def test_a_transaction_of_more_partitions_than_a_record_can_hold_is_refused_for_good(bench):
    producer = bench.producer()
    bench.log.error = ErrorCode.MESSAGE_TOO_LARGE
    assert bench.add(producer, ORDERS_0) == ErrorCode.INVALID_TXN_STATE


# A transaction.


def test_a_committed_transaction_goes_through_all_its_states_and_marks_every_partition(bench):
    producer = bench.producer()
    assert bench.add(producer, ORDERS_0) == ErrorCode.NONE
    assert bench.add(producer, ORDERS_1) == ErrorCode.NONE
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NONE, producer)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, True), Marker(ORDERS_1, 1000, 0, True)]
    assert bench.log.states("tx") == [("Empty", 0), ("Ongoing", 0), ("Ongoing", 0), ("PrepareCommit", 0), ("CompleteCommit", 0)]


def test_partitions_that_are_in_the_transaction_already_are_not_written_again(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, ORDERS_1)
    assert bench.add(producer, ORDERS_1) == ErrorCode.NONE
    assert len(bench.log.values("tx")) == 2


def test_the_start_of_a_transaction_is_its_first_partition(bench):
    producer = bench.producer()
    bench.timers.advance(500)
    bench.add(producer, ORDERS_0)
    bench.timers.advance(500)
    bench.add(producer, ORDERS_1)
    value = bench.log.values("tx")[-1]
    assert (value.transaction_start_timestamp_ms, value.transaction_last_update_timestamp_ms) == (START_MS + 500, START_MS + 1000)


def test_an_unknown_transactional_id_has_no_producer_mapping(bench):
    assert bench.add(Producer(1000, 0), ORDERS_0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.end(Producer(1000, 0)) == ProducerAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_another_producer_id_has_no_mapping_and_another_epoch_is_fenced(bench):
    producer = bench.producer()
    for wrong, error in [
        (Producer(999, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(1000, 1), ErrorCode.PRODUCER_FENCED),
        (Producer(1000, -1), ErrorCode.PRODUCER_FENCED),
    ]:
        assert bench.add(wrong, ORDERS_0) == error
        assert bench.end(wrong) == ProducerAnswer(error)
        assert bench.coordinator.verify("tx", wrong, [ORDERS_0]) == {ORDERS_0: error}
    assert bench.add(producer, ORDERS_0) == ErrorCode.NONE


def test_while_markers_are_under_way_the_id_is_busy_and_the_end_is_answered_already(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.markers.is_holding = True
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NONE, producer)
    assert bench.state() == "PrepareCommit"
    assert bench.add(producer, ORDERS_1) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.init() == ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.end(producer) == ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.end(producer, committed=False) == ProducerAnswer(ErrorCode.INVALID_TXN_STATE)
    assert bench.coordinator.verify("tx", producer, [ORDERS_0]) == {ORDERS_0: ErrorCode.CONCURRENT_TRANSACTIONS}
    bench.markers.release()
    assert bench.state() == "CompleteCommit"
    assert bench.add(producer, ORDERS_1) == ErrorCode.NONE


def test_the_end_is_not_answered_before_it_is_written_and_no_marker_leaves_before_that(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.log.is_holding = True
    answers: list[ProducerAnswer] = []
    bench.coordinator.end("tx", producer, True, answers.append)
    assert (answers, bench.markers.written) == ([], [])
    assert bench.end(producer) == ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    bench.log.release()
    assert answers == [ProducerAnswer(ErrorCode.NONE, producer)]
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, True)]


def test_when_complete_cannot_be_written_it_is_tried_again_and_markers_are_not(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.markers.is_holding = True
    bench.end(producer)
    bench.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.markers.release()
    assert bench.state() == "PrepareCommit"
    bench.log.error = 0
    bench.timers.advance(100)
    assert bench.state() == "CompleteCommit"
    assert len(bench.markers.written) == 1


# Markers.


def test_a_partition_that_cannot_take_its_marker_gets_it_again_until_it_can(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, ORDERS_1)
    bench.markers.errors[ORDERS_1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.end(producer)
    bench.timers.advance(1000)
    assert bench.state() == "PrepareCommit"
    bench.markers.errors.clear()
    bench.timers.advance(100)
    assert bench.state() == "CompleteCommit"
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, True), Marker(ORDERS_1, 1000, 0, True)]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT],
)
def test_a_partition_that_was_deleted_or_moved_on_does_not_hold_up_the_end(bench, error):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, ORDERS_1)
    bench.markers.errors[ORDERS_0] = error
    bench.end(producer, committed=False)
    assert bench.state() == "CompleteAbort"
    assert bench.markers.written == [Marker(ORDERS_1, 1000, 0, False)]


def test_a_fenced_coordinator_stops_sending(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.markers.errors[ORDERS_0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    bench.end(producer)
    bench.markers.errors.clear()
    bench.timers.advance(5000)
    assert bench.state() == "PrepareCommit"
    assert bench.markers.written == []


def test_markers_carry_the_epoch_of_the_partition_that_was_loaded(bench):
    bench.coordinator.load(bench.coordinator.partition_for("tx"), coordinator_epoch=7)
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.end(producer)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, True, coordinator_epoch=7)]


def test_markers_of_a_partition_that_was_given_away_are_not_sent_again(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.markers.errors[ORDERS_0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.end(producer)
    bench.coordinator.unload(bench.coordinator.partition_for("tx"))
    bench.markers.errors.clear()
    bench.timers.advance(5000)
    assert bench.markers.written == []


# Fencing.


def test_a_second_instance_aborts_what_the_first_left_open_and_gets_the_epoch_after_that(bench):
    """Kafka 4.3 with Java 4.3: epoch 2 was open, the first answer is 51, the second epoch 4."""
    bench.producer()
    bench.producer()
    old = bench.producer()
    assert old == Producer(1000, 2)
    bench.add(old, ORDERS_0, version=2)
    assert bench.init() == ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 3, False)]
    assert bench.producer() == Producer(1000, 4)
    assert bench.add(old, ORDERS_0) == ErrorCode.PRODUCER_FENCED
    assert bench.end(old, committed=False, version=2) == ProducerAnswer(ErrorCode.PRODUCER_FENCED)


def test_a_transaction_that_a_killed_client_left_open_is_aborted_for_the_next_one_only(bench):
    old = bench.producer()
    bench.add(old, ORDERS_0)
    bench.init()
    new = bench.producer()
    bench.add(new, ORDERS_1)
    bench.end(new)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, False), Marker(ORDERS_1, 1000, 2, True)]


def test_a_recovering_producer_with_an_old_epoch_does_not_abort_its_successor(bench):
    old = bench.producer()
    new = bench.producer()
    bench.add(new, ORDERS_0)
    assert bench.init(known=old) == ProducerAnswer(ErrorCode.PRODUCER_FENCED)
    assert bench.state() == "Ongoing"


# Verification.


def test_a_partition_of_the_transaction_is_verified_and_another_is_not(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    assert bench.coordinator.verify("tx", producer, [ORDERS_0, ORDERS_1]) == {
        ORDERS_0: ErrorCode.NONE,
        ORDERS_1: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_a_record_that_comes_after_the_end_is_not_verified(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.end(producer)
    assert bench.coordinator.verify("tx", producer, [ORDERS_0]) == {ORDERS_0: ErrorCode.TRANSACTION_ABORTABLE}


def test_verifying_without_a_transactional_id_is_an_invalid_request(bench):
    assert bench.coordinator.verify("", Producer(1, 0), [ORDERS_0]) == {ORDERS_0: ErrorCode.INVALID_REQUEST}
