"""What the transaction coordinator does by the clock, and in large numbers."""

from __future__ import annotations

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.coordinator.transactions.transaction_settings import TransactionSettings
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, Bench, Marker


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
