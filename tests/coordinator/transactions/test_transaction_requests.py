"""The handlers of the transaction APIs: versions, error codes for old clients, filters. Expected answers are Kafka 4.3's (golden-wire)."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.broker.requests import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import admit
from milepost.log.producer_state.producer_entry import BatchMetadata, ProducerEntry
from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from milepost.topic_partition import TopicPartition
from tests.coordinator.in_pieces import Pieces, handled
from tests.coordinator.transactions.transaction_fixture import ORDERS_0, ORDERS_1, Bench


class Desk(Bench):
    """Handlers with a broker that has two topics and one group partition."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = Pieces()
        topics = {
            "orders": SimpleNamespace(partitions=2, is_internal=False),
            "__consumer_offsets": SimpleNamespace(partitions=50, is_internal=True),
        }
        self.hosted: dict[TopicPartition, Any] = {}
        self.broker = SimpleNamespace(
            topology=SimpleNamespace(producer_ids=SimpleNamespace(when_available=lambda ready: ready())),
            transactions=self.coordinator,
            groups=SimpleNamespace(partition_for=lambda group_id: 12),
            cluster=SimpleNamespace(
                topics=topics, has_partition=lambda name, number: name in topics and 0 <= number < topics[name].partitions
            ),
            replicas=SimpleNamespace(partition=self.hosted.get),
            clock=self.clock,
            missing_topic=lambda name: 3,
            missing_partition=lambda name: 3,
            admit=partial(admit, self.coordinator),
        )

    def ask(self, handler: Any, request: Any, version: int) -> Any:
        answers: list[Any] = []
        context = SimpleNamespace(broker=self.broker, version=version, answer=answers.append)
        response = handled(handler.handle(request, context), self.pieces)
        if response is not None:
            answers.append(response)
        assert len(answers) == 1, f"{len(answers)} answers"
        return answers[0]


@pytest.fixture
def desk() -> Desk:
    return Desk()


# InitProducerId.


def init(
    desk: Desk, version: int, transactional_id: str | None = "tx", timeout_ms: int = 60_000, known: tuple[int, int] = (-1, -1)
):
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=known[0], producer_epoch=known[1]
    )
    answer = desk.ask(init_producer_id, request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_init_answers_a_producer_in_every_version(desk, version):
    assert init(desk, version) == (0, 1000, 0)
    assert init(desk, version, None, 0) == (0, 1001, 0)


@pytest.mark.parametrize("version", range(6))
def test_init_refuses_a_long_timeout_and_an_empty_id_with_minus_1_for_both_fields(desk, version):
    assert init(desk, version, "tx-bad", 99_999_999) == (50, -1, -1)
    assert init(desk, version, "", 60_000) == (42, -1, -1)


@pytest.mark.parametrize(("version", "error"), [(3, 47), (4, 90), (5, 90)])
def test_init_of_a_fenced_producer_is_47_before_version_4_and_90_from_it(desk, version, error):
    init(desk, 4)
    init(desk, 4)
    assert init(desk, version, known=(1000, 0)) == (error, -1, -1)


@pytest.mark.parametrize("known", [(1000, -1), (-1, 0)])
def test_init_with_half_a_producer_is_an_invalid_request(desk, known):
    assert init(desk, 4, known=known) == (42, -1, -1)


def test_init_recovers_with_the_known_producer(desk):
    init(desk, 4)
    assert init(desk, 4, known=(1000, 0)) == (0, 1000, 1)


# AddPartitionsToTxn.


def add(desk: Desk, version: int, producer: Producer, topics: dict[str, list[int]], transactional_id: str = "tx"):
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.V3AndBelowTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
    answer = desk.ask(add_partitions_to_txn, request, version)
    return {
        (topic.name, part.partition_index): part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
def test_a_client_adds_partitions(desk, version):
    assert add(desk, version, desk.producer(), {"orders": [0, 1]}) == {("orders", 0): 0, ("orders", 1): 0}
    assert desk.coordinator.describe("tx").partitions == {ORDERS_0, ORDERS_1}
    assert desk.coordinator.describe("tx").client_version == 0


@pytest.mark.parametrize(("version", "error"), [(0, 47), (1, 47), (2, 90), (3, 90)])
def test_a_fenced_client_that_adds_gets_47_before_version_2_and_90_from_it(desk, version, error):
    desk.producer()
    assert add(desk, version, Producer(1000, 3), {"orders": [0]}) == {("orders", 0): error}


def test_one_bad_partition_keeps_all_others_out(desk):
    answer = add(desk, 3, desk.producer(), {"orders": [0, 2], "nothing": [0], "__consumer_offsets": [1]})
    assert answer == {("orders", 0): 55, ("orders", 2): 3, ("nothing", 0): 3, ("__consumer_offsets", 1): 29}
    assert desk.state() == "Empty"


def test_a_client_without_a_transactional_id_sends_an_invalid_request(desk):
    assert add(desk, 3, Producer(1, 0), {"orders": [0]}, "") == {("orders", 0): 42}


def ask_as_broker(desk: Desk, version: int, *transactions: tuple[str, Producer, bool, list[int]]):
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnRequest.Transaction.Topic(name="orders", partitions=partitions)],
            )
            for name, producer, verify_only, partitions in transactions
        ]
    )
    answer = desk.ask(add_partitions_to_txn, request, version)
    assert answer.error_code == 0
    return [
        (
            result.transactional_id,
            {
                part.partition_index: part.partition_error_code
                for topic in result.topic_results
                for part in topic.results_by_partition
            },
        )
        for result in answer.results_by_transaction
    ]


def test_a_broker_asks_for_several_transactions_at_once_and_gets_them_in_order(desk):
    one, two = desk.producer("one"), desk.producer("two")
    desk.add(one, ORDERS_0, transactional_id="one")
    asked = [("one", one, True, [0, 1]), ("two", two, False, [1]), ("none", one, True, [0])]
    assert ask_as_broker(desk, 5, *asked) == [("one", {0: 0, 1: 120}), ("two", {1: 0}), ("none", {0: 49})]
    assert desk.coordinator.describe("two").client_version == 2


def test_a_broker_is_told_120_in_version_4_too(desk):
    """Seen at Kafka 4.3.0, though the code came with version 5."""
    producer = desk.producer()
    assert ask_as_broker(desk, 4, ("tx", producer, True, [0])) == [("tx", {0: 120})]


def test_a_broker_keeps_90_in_its_versions(desk):
    desk.producer()
    assert ask_as_broker(desk, 4, ("tx", Producer(1000, 9), True, [0])) == [("tx", {0: 90})]


def test_a_broker_that_asks_for_nothing_gets_nothing(desk):
    assert ask_as_broker(desk, 5) == []


def test_a_batch_is_answered_once_when_its_slowest_transaction_is_written(desk):
    one, two = desk.producer("one"), desk.producer("two")
    answers: list[Any] = []
    context = SimpleNamespace(broker=desk.broker, version=5, answer=answers.append)
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=0,
                topics=[AddPartitionsToTxnRequest.Transaction.Topic(name="orders", partitions=[0])],
            )
            for name, producer in (("one", one), ("two", two))
        ]
    )
    desk.log.is_holding = True
    assert handled(add_partitions_to_txn.handle(request, context)) is None
    desk.log.held.pop(0)()
    assert answers == []
    desk.log.release()
    assert [result.transactional_id for result in answers[0].results_by_transaction] == ["one", "two"]


# AddOffsetsToTxn and EndTxn.


def add_offsets(desk: Desk, version: int, producer: Producer) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, group_id="g"
    )
    return desk.ask(add_offsets_to_txn, request, version).error_code


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_a_group_is_added(desk, version):
    assert add_offsets(desk, version, desk.producer()) == 0
    assert desk.coordinator.describe("tx").partitions == {TopicPartition("__consumer_offsets", 12)}


@pytest.mark.parametrize(("version", "error"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_a_fenced_client_that_adds_offsets_gets_47_before_version_2(desk, version, error):
    desk.producer()
    assert add_offsets(desk, version, Producer(1000, 7)) == error


def end(desk: Desk, version: int, producer: Producer, committed: bool = True):
    request = EndTxnRequest(
        transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=committed
    )
    answer = desk.ask(end_txn, request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(5))
def test_an_end_before_version_5_keeps_the_epoch(desk, version):
    producer = desk.producer()
    desk.add(producer, ORDERS_0)
    assert end(desk, version, producer)[0] == 0
    assert desk.coordinator.describe("tx").producer_epoch == 0


def test_an_end_of_version_5_answers_the_raised_epoch(desk):
    producer = desk.producer()
    desk.add(producer, ORDERS_0, version=2)
    assert end(desk, 5, producer) == (0, 1000, 1)
    assert end(desk, 5, Producer(1000, 1), committed=False) == (0, 1000, 2)


@pytest.mark.parametrize(("version", "error"), [(0, 47), (1, 47), (2, 90), (4, 90), (5, 90)])
def test_an_end_of_a_fenced_client_is_47_before_version_2_and_90_from_it(desk, version, error):
    desk.producer()
    assert end(desk, version, Producer(1000, 3)) == (error, -1, -1)


def test_an_end_without_a_transaction_is_48(desk):
    assert end(desk, 4, desk.producer())[0] == 48


# Looking at them.


def describe(desk: Desk, *names: str):
    return desk.ask(describe_transactions, DescribeTransactionsRequest(transactional_ids=list(names)), 0).transaction_states


def test_an_open_transaction_is_described(desk):
    producer = desk.producer()
    desk.timers.advance(1500)
    desk.add(producer, ORDERS_1, ORDERS_0)
    (state,) = describe(desk, "tx")
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (state.transaction_start_time_ms, state.producer_id, state.producer_epoch) == (1_700_000_001_500, 1000, 0)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("orders", [0, 1])]


def test_an_empty_transaction_has_no_start_and_an_unknown_one_is_105_with_zeros(desk):
    desk.producer()
    known, unknown, empty = describe(desk, "tx", "no-tx", "")
    assert (known.transaction_state, known.transaction_start_time_ms, known.topics) == ("Empty", -1, [])
    assert (unknown.error_code, unknown.transactional_id, unknown.transaction_state, unknown.producer_id) == (105, "no-tx", "", 0)
    assert empty.error_code == 42


def listed(desk: Desk, **filters: Any):
    request = ListTransactionsRequest(**({"state_filters": [], "producer_id_filters": []} | filters))
    answer = desk.ask(list_transactions, request, 2)
    names = sorted(state.transactional_id for state in answer.transaction_states)
    return answer.error_code, answer.unknown_state_filters, names


@pytest.fixture
def three(desk: Desk) -> Desk:
    """`a-open` is open for 2 s, `b-open` for 1 s, `c-empty` has never begun."""
    first = desk.producer("a-open")
    second = desk.producer("b-open")
    desk.producer("c-empty")
    desk.add(first, ORDERS_0, transactional_id="a-open")
    desk.timers.advance(1000)
    desk.add(second, ORDERS_0, transactional_id="b-open")
    desk.timers.advance(1000)
    return desk


@pytest.mark.parametrize(
    ("filters", "answer"),
    [
        ({}, (0, [], ["a-open", "b-open", "c-empty"])),
        ({"state_filters": ["Ongoing"]}, (0, [], ["a-open", "b-open"])),
        ({"state_filters": ["Empty", "Prepared"]}, (0, ["Prepared"], ["c-empty"])),
        ({"state_filters": ["ongoing"]}, (0, ["ongoing"], [])),
        ({"producer_id_filters": [1001, 5]}, (0, [], ["b-open"])),
        ({"state_filters": ["Ongoing"], "duration_filter": 1500}, (0, [], ["a-open"])),
        ({"state_filters": ["Ongoing"], "duration_filter": 2000}, (0, [], [])),
        ({"state_filters": ["Ongoing"], "duration_filter": 0}, (0, [], ["a-open", "b-open"])),
        ({"transactional_id_pattern": "[ab]-.*"}, (0, [], ["a-open", "b-open"])),
        ({"transactional_id_pattern": "open"}, (0, [], [])),
        ({"transactional_id_pattern": ""}, (0, [], ["a-open", "b-open", "c-empty"])),
        ({"transactional_id_pattern": "(open"}, (128, [], [])),
    ],
)
def test_listed_are_those_that_pass_all_filters(three, filters, answer):
    assert listed(three, **filters) == answer


def test_producers_of_a_partition_are_described_with_the_start_of_their_transaction(desk):
    idle = ProducerEntry(7, 2, -1, 1_700_000_000_000, None, [BatchMetadata(9, 20, 0, 1_700_000_000_000)])
    busy = ProducerEntry(8, 0, 3, 1_700_000_000_500, 21)
    desk.hosted[ORDERS_0] = SimpleNamespace(log=SimpleNamespace(producers=SimpleNamespace(producers={7: idle, 8: busy})))
    request = DescribeProducersRequest(topics=[DescribeProducersRequest.Topic(name="orders", partition_indexes=[0, 5])])
    found, missing = desk.ask(describe_producers, request, 0).topics[0].partitions
    assert [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp, p.coordinator_epoch, p.current_txn_start_offset)
        for p in found.active_producers
    ] == [(7, 2, 9, 1_700_000_000_000, -1, -1), (8, 0, -1, 1_700_000_000_500, 3, 21)]
    assert (found.error_code, missing.partition_index, missing.error_code) == (0, 5, 3)
