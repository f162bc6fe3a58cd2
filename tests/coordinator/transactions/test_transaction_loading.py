"""What a coordinator knows after a restart, and what it does about it. Everything but the log is gone."""

from __future__ import annotations

import pytest

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.coordinator.transactions.transaction_settings import TransactionSettings
from milepost.protocol.error_codes import ErrorCode
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.internal_topics import transaction_state
from milepost.record.internal_topics.transaction_state import PartitionsOfTopic, TransactionLogKey, TransactionLogValue
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, START_MS, Bench, Marker


@pytest.fixture
def bench() -> Bench:
    return Bench()


def stored(bench: Bench, status: int, *, transactional_id: str = "tx", **others: object) -> None:
    """A record of the id as somebody else left it behind."""
    fields: dict[str, object] = {
        "producer_id": 5,
        "producer_epoch": 3,
        "transaction_timeout_ms": 60_000,
        "transaction_status": status,
        "transaction_partitions": None if status == 0 else (PartitionsOfTopic(topic="orders", partition_ids=(0, 1)),),
        "transaction_last_update_timestamp_ms": START_MS,
        "transaction_start_timestamp_ms": -1 if status == 0 else START_MS,
        "schema_version": 1,
    }
    key = transaction_state.encode(TransactionLogKey(transactional_id))
    value = transaction_state.encode(TransactionLogValue(**(fields | others)))  # type: ignore[arg-type]
    bench.log.append(bench.coordinator.partition_for(transactional_id), [Record(0, START_MS, key, value)], lambda _: None)


def test_an_open_transaction_goes_on_after_a_crash(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    bench.restart()
    assert bench.state() == "Ongoing"
    assert bench.add(producer, ORDERS_1) == ErrorCode.NONE
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NONE, producer)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, True), Marker(ORDERS_1, 1000, 0, True)]


def test_while_what_is_in_the_log_may_be_lost_again_requests_are_told_to_wait(bench):
    producer = bench.producer()
    partition = bench.coordinator.partition_for("tx")
    bench.coordinator.expect(partition)
    assert bench.add(producer, ORDERS_0) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.coordinator.load(partition)
    assert bench.add(producer, ORDERS_0) == ErrorCode.NONE
    bench.coordinator.expect(partition)
    bench.coordinator.unload(partition)
    assert bench.add(producer, ORDERS_0) == ErrorCode.NOT_COORDINATOR


def test_an_open_transaction_times_out_after_a_crash_counted_from_its_start(bench):
    producer = bench.producer(timeout_ms=60_000)
    bench.add(producer, ORDERS_0)
    bench.timers.advance(55_000)
    bench.restart()
    bench.timers.advance(10_000)
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 1, False)]
    assert bench.state() == "CompleteAbort"


@pytest.mark.parametrize(("committed", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
def test_a_transaction_that_was_ending_gets_its_markers_after_a_crash(bench, committed, state):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, ORDERS_1)
    bench.markers.is_holding = True
    assert bench.end(producer, committed) == ProducerAnswer(ErrorCode.NONE, producer)
    bench.restart()
    assert bench.markers.written == [Marker(ORDERS_0, 1000, 0, committed), Marker(ORDERS_1, 1000, 0, committed)]
    assert bench.state() == state


def test_markers_that_were_written_before_the_crash_are_written_again(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, ORDERS_1)
    bench.markers.errors[ORDERS_1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.end(producer)
    bench.markers.errors.clear()
    bench.restart()
    assert [marker.partition for marker in bench.markers.written] == [ORDERS_0, ORDERS_0, ORDERS_1]


def test_a_raised_epoch_and_a_new_producer_id_survive_a_crash_in_the_middle_of_the_end(bench):
    stored(bench, 1, producer_epoch=32766, client_transaction_version=2)
    bench.restart()
    bench.markers.is_holding = True
    assert bench.end(Producer(5, 32766), version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 0))
    bench.restart()
    assert {(marker.producer_id, marker.producer_epoch) for marker in bench.markers.written} == {(5, 32767)}
    assert bench.end(Producer(5, 32766), version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 0))
    assert bench.add(Producer(1000, 0), ORDERS_0, version=2) == ErrorCode.NONE


def test_an_end_that_is_repeated_across_a_crash_is_answered_as_before(bench):
    producer = bench.producer()
    bench.add(producer, ORDERS_0, version=2)
    bench.end(producer, version=2)
    bench.restart()
    assert bench.end(producer, version=2) == ProducerAnswer(ErrorCode.NONE, Producer(1000, 1))


def test_a_crash_after_each_answer_loses_nothing_that_was_answered(bench):
    """J-10: the coordinator dies after every single request."""
    producer = bench.producer()
    bench.restart()
    assert bench.add(producer, ORDERS_0) == ErrorCode.NONE
    bench.restart()
    assert bench.coordinator.verify("tx", producer, [ORDERS_0]) == {ORDERS_0: ErrorCode.NONE}
    assert bench.add(producer, TopicPartition("__consumer_offsets", 3)) == ErrorCode.NONE
    bench.restart()
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NONE, producer)
    bench.restart()
    assert bench.end(producer) == ProducerAnswer(ErrorCode.NONE, producer)
    assert {str(marker.partition) for marker in bench.markers.written} == {"orders-0", "__consumer_offsets-3"}


def test_a_request_that_was_not_answered_before_the_crash_happened_whole_or_not_at_all(bench):
    producer = bench.producer()
    bench.log.is_holding = True
    bench.coordinator.add_partitions("tx", producer, [ORDERS_0], lambda _: None)
    bench.log.held.clear()
    bench.log.is_holding = False
    bench.restart()
    assert bench.state() == "Empty"
    assert bench.coordinator.verify("tx", producer, [ORDERS_0]) == {ORDERS_0: ErrorCode.TRANSACTION_ABORTABLE}


def test_an_epoch_is_never_given_out_twice_across_a_crash(bench):
    assert bench.producer() == Producer(1000, 0)
    bench.restart()
    assert bench.producer() == Producer(1000, 1)


def test_a_forgotten_id_stays_forgotten(bench):
    bench.producer()
    bench.timers.advance(604_800_000 + 3_600_000)
    bench.restart()
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_an_id_expires_counted_from_its_last_use_before_the_restart(bench):
    bench.producer()
    bench.clock.advance(604_800_000)
    bench.restart()
    bench.coordinator.remove_expired()
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_loading_again_forgets_what_only_memory_knew(bench):
    bench.producer()
    bench.coordinator.load(bench.coordinator.partition_for("tx"))
    bench.coordinator.load(bench.coordinator.partition_for("tx"))
    assert bench.producer() == Producer(1000, 1)


# What others leave in the log.


@pytest.mark.parametrize("version", [0, 1])
def test_a_record_of_either_version_is_understood(bench, version):
    stored(bench, 1, schema_version=version)
    bench.restart()
    found = bench.coordinator.describe("tx")
    assert (found.producer_id, found.producer_epoch, found.partitions) == (5, 3, {ORDERS_0, ORDERS_1})
    assert (found.timeout_ms, found.start_timestamp, found.client_version) == (60_000, START_MS, 0)


def test_the_state_that_nobody_writes_is_an_abort_whose_markers_are_due(bench):
    stored(bench, 7)
    bench.restart()
    assert bench.markers.written == [Marker(ORDERS_0, 5, 3, False), Marker(ORDERS_1, 5, 3, False)]
    assert bench.state() == "CompleteAbort"


def test_a_dead_id_is_gone(bench):
    stored(bench, 6, transaction_partitions=())
    bench.restart()
    assert bench.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_records_of_a_later_kafka_and_damaged_ones_do_not_stop_the_broker(bench, caplog):
    stored(bench, 1)
    partition = bench.coordinator.partition_for("tx")
    key = transaction_state.encode(TransactionLogKey("tx"))
    for data in [(b"\x00\x09later", b"x"), (key, b"\x00\x09later"), (key, b"\x00\x01torn"), (b"", b""), (None, None)]:
        bench.log.append(partition, [Record(0, START_MS, *data)], lambda _: None)
    stored(bench, 9)
    bench.restart()
    assert bench.state() == "Ongoing"
    assert len(caplog.records) == 6


def test_control_batches_are_not_read_as_records(bench):
    marker = end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT, 0), offset=0, timestamp=0, producer_id=1, producer_epoch=0
    )
    bench.log.partitions[3] = [marker]
    bench.restart()
    assert bench.coordinator.all() == []


def test_the_first_record_of_an_id_is_as_kafka_4_3_writes_it(bench):
    """Golden transactions/kafka-4.3.0: previousProducerId is the id itself, partitions are null, no client version."""
    bench.producer(timeout_ms=600_000)
    assert bench.log.values("tx") == [
        TransactionLogValue(
            producer_id=1000,
            previous_producer_id=1000,
            producer_epoch=0,
            transaction_timeout_ms=600_000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=START_MS,
            transaction_start_timestamp_ms=-1,
            schema_version=1,
        )
    ]


def test_the_records_of_a_transaction_of_version_2_are_as_kafka_4_3_writes_them(bench):
    """Golden transactions/kafka-4.3.0, __transaction_state-0: Ongoing 0, PrepareAbort 1, CompleteAbort 1, all with client version 2."""
    producer = bench.producer()
    bench.add(producer, ORDERS_1, ORDERS_0, version=2)
    bench.end(producer, committed=False, version=2)
    both = (PartitionsOfTopic(topic="orders", partition_ids=(0, 1)),)
    values = bench.log.values("tx")[1:]
    assert [(v.transaction_status, v.producer_epoch, v.transaction_partitions) for v in values] == [
        (1, 0, both),
        (3, 1, both),
        (5, 1, ()),
    ]
    assert {(v.client_transaction_version, v.previous_producer_id, v.next_producer_id) for v in values} == {(2, 1000, -1)}
    assert {v.transaction_start_timestamp_ms for v in values} == {START_MS}


def test_before_transaction_version_1_records_have_version_0():
    bench = Bench(TransactionSettings(transaction_version=0))
    producer = bench.producer()
    bench.add(producer, ORDERS_0)
    assert {value.schema_version for value in bench.log.values("tx")} == {0}


@pytest.mark.parametrize(
    ("kafka", "epochs"),
    [
        ("2.4.1", {"tid-A": 0, "tid-B": 0, "tid-C": 0}),
        ("3.9.1", {"tid-A": 0, "tid-B": 0, "tid-C": 0}),
        ("4.3.0", {"tid-A": 12, "tid-B": 7, "tid-C": 13}),
    ],
)
def test_what_kafka_left_behind_is_loaded_and_its_open_transactions_run_into_their_timeout(kafka, epochs, golden):
    bench = Bench()
    bench.log.partition_count = 2
    for partition in (0, 1):
        directory = golden.partition(f"transactions/kafka-{kafka}", f"__transaction_state-{partition}")
        bench.log.partitions[partition] = [(directory / "00000000000000000000.log").read_bytes()]
    bench.start()
    found = {metadata.transactional_id: metadata for metadata in bench.coordinator.all()}
    assert {name: metadata.producer_epoch for name, metadata in found.items()} == epochs
    assert {name: metadata.producer_id for name, metadata in found.items()} == {"tid-A": 0, "tid-B": 1, "tid-C": 2}
    assert {name: metadata.state.kafka_name for name, metadata in found.items()} == {
        "tid-A": "CompleteCommit",
        "tid-B": "Ongoing",
        "tid-C": "Ongoing",
    }
    assert found["tid-B"].partitions == found["tid-C"].partitions == {TopicPartition("open", 0)}
    bench.clock.advance(1794735700000 - START_MS)
    bench.coordinator.abort_timed_out()
    open_0 = TopicPartition("open", 0)
    assert set(bench.markers.written) == {
        Marker(open_0, 1, epochs["tid-B"] + 1, False),
        Marker(open_0, 2, epochs["tid-C"] + 1, False),
    }


def test_before_transaction_version_1_a_new_producer_id_that_waits_is_written_all_the_same():
    bench = Bench(TransactionSettings(transaction_version=0))
    stored(bench, 1, producer_epoch=32766, client_transaction_version=2)
    bench.restart()
    bench.markers.is_holding = True
    assert bench.end(Producer(5, 32766), version=2).producer == Producer(1000, 0)
    bench.restart()
    assert bench.add(Producer(1000, 0), ORDERS_0, version=2) == ErrorCode.NONE
