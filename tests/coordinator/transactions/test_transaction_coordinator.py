"""The transaction coordinator, request by request, with a log in memory."""

from __future__ import annotations

import pytest

from milepost.coordinator.transactions.transaction import NO_PRODUCER, Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.coordinator.transactions.transaction_settings import TransactionSettings
from milepost.errors import KafkaStorage
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, START_MS, Bench, Marker


@pytest.fixture
def bench() -> Bench:
    return Bench()


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


# Version 2: an epoch for every transaction.


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


# Time.


def test_a_transaction_that_outlives_its_timeout_is_aborted_with_a_raised_epoch(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.add(producer, ORDERS_0)
    bench.timers.advance(10_000)
    assert bench.state() == "CompleteAbort"
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, False)]
    assert bench.end(producer) == ProducerAnswer(ErrorCode.PRODUCER_FENCED)


def test_readers_wait_at_most_the_timeout_and_10_seconds_for_a_producer_that_died(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.timers.advance(9_999)
    bench.add(producer, ORDERS_0)
    bench.timers.advance(14_999)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, False)]


def test_a_transaction_within_its_timeout_goes_on(bench):
    producer = bench.producer(timeout_ms=60_000)
    bench.add(producer, ORDERS_0)
    bench.timers.advance(60_000)
    assert bench.state() == "Ongoing"
    bench.timers.advance(10_000)
    assert bench.state() == "CompleteAbort"


def test_an_ending_transaction_does_not_time_out(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.add(producer, ORDERS_0)
    bench.markers.is_holding = True
    bench.end(producer)
    bench.timers.advance(60_000)
    bench.markers.release()
    assert bench.state() == "CompleteCommit"


def test_a_timeout_that_cannot_be_written_is_tried_again_without_raising_the_epoch_twice(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.add(producer, ORDERS_0)
    bench.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.timers.advance(20_000)
    assert bench.state() == "Ongoing"
    bench.log.error = 0
    bench.timers.advance(10_000)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, False)]


def test_a_client_of_version_2_may_abort_what_has_timed_out_and_go_on(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.add(producer, ORDERS_0, version=2)
    bench.timers.advance(10_000)
    assert bench.end(producer, committed=True, version=2) == ProducerAnswer(ErrorCode.INVALID_TXN_STATE)
    assert bench.end(producer, committed=False, version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 1))


def test_an_id_that_rests_for_seven_days_is_forgotten_and_starts_again(bench):
    producer = bench.producer()
    bench.timers.advance(604_800_000 + 3_600_000)
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"
    assert bench.log.states("tx") == [("Empty", 0), ("gone", -1)]
    assert bench.add(producer, ORDERS_0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.init(known=producer).producer == Producer(1001, 0)


def test_an_id_is_not_forgotten_before_its_time_nor_with_an_open_transaction():
    bench = Bench(TransactionSettings(max_timeout_ms=2_000_000_000))
    bench.producer("resting")
    open_one = bench.producer("open", timeout_ms=2_000_000_000)
    bench.add(open_one, ORDERS_0, transactional_id="open")
    bench.timers.advance(604_800_000 - 1)
    assert bench.state("resting") == "Empty"
    bench.timers.advance(3_600_001)
    assert bench.state("resting") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert bench.state("open") == "Ongoing"


def test_tombstones_that_cannot_be_written_leave_the_id_usable(bench):
    bench.producer()
    bench.timers.advance(604_800_000 - 1)
    bench.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.timers.advance(3_600_000)
    bench.log.error = 0
    assert bench.producer() == Producer(1000, 1)


def test_thousands_of_expired_ids_are_removed_in_batches_of_a_thousand():
    bench = Bench()
    bench.log.partition_count = 1
    bench.start()
    for number in range(2500):
        bench.producer(f"tx-{number}")
    before = len(bench.log.partitions[0])
    bench.clock.advance(604_800_000)
    bench.coordinator.remove_expired()
    assert len(bench.coordinator.all()) == 2500  # others are served first
    bench.timers.advance(1)
    sizes = [batch.record_count for batch in bench.log.batches(0)][before:]
    assert sizes == [1000, 1000, 500]
    assert bench.coordinator.all() == []


def test_markers_of_a_large_transaction_are_sent_some_at_a_time():
    bench = Bench()
    producer = bench.producer()
    partitions = [TopicPartition("wide", number) for number in range(5_000)]
    bench.add(producer, *partitions)
    assert bench.end(producer).error == ErrorCode.NONE
    assert len(bench.markers.written) == 50
    assert bench.state() == "PrepareCommit"
    bench.timers.advance(1)
    assert [marker.partition for marker in bench.markers.written] == partitions
    assert bench.state() == "CompleteCommit"


def test_markers_that_are_answered_out_of_turn_complete_the_transaction_once():
    bench = Bench()
    producer = bench.producer()
    partitions = [TopicPartition("wide", number) for number in range(120)]
    bench.add(producer, *partitions)
    bench.markers.errors[partitions[70]] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.markers.is_holding = True
    bench.end(producer)
    bench.timers.advance(1)
    assert len(bench.markers.held) == 3
    bench.markers.held.reverse()
    bench.markers.is_holding = False
    bench.markers.release()
    assert bench.state() == "PrepareCommit"
    bench.markers.errors.clear()
    bench.timers.advance(100)
    assert bench.state() == "CompleteCommit"
    assert sorted(marker.partition.partition for marker in bench.markers.written) == list(range(120))


def test_a_closed_coordinator_leaves_no_timer_that_does_anything(bench):
    producer = bench.producer(timeout_ms=5000)
    bench.add(producer, ORDERS_0)
    bench.coordinator.close()
    bench.timers.advance(60_000)
    assert bench.state() == "Ongoing"


def test_offsets_of_a_group_are_a_partition_like_any_other(bench):
    producer = bench.producer()
    offsets = TopicPartition("__consumer_offsets", 12)
    bench.add(producer, offsets, ORDERS_0)
    bench.end(producer)
    assert {marker.partition for marker in bench.markers.written} == {offsets, ORDERS_0}


def test_oldest_ids_that_were_never_used_go_for_new_ones():
    bench = Bench(TransactionSettings(most_unused_bytes=10_000))
    used = bench.producer("used")
    bench.add(used, ORDERS_0, transactional_id="used")
    for number in range(100):
        bench.producer(f"tx-{number}")
    assert bench.state("tx-0") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert (bench.state("tx-99"), bench.state("used")) == ("Empty", "Ongoing")
    assert len(bench.coordinator.all()) == bench.coordinator.unused_ids + 1 < 15
    bench.restart()
    assert len(bench.coordinator.all()) == bench.coordinator.unused_ids + 1 < 15
    assert bench.producer("tx-0").producer_epoch == 0
