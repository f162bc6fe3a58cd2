"""In a cluster: a marker is written between the coordinator's word about a transaction and the append of its first batch (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.simulation.clients import Client
from tests.simulation.test_strays import NAME, Town

INVALID_TXN_STATE = 48


class Transactor(Client):
    """One producer, whose first batch is on its way while its transaction is aborted."""

    def __init__(self, town: Town):
        super().__init__(town.cluster, "app")
        self.town = town
        self.codes: list[int] = []

    def play(self) -> None:
        coordinator = self.insist(
            lambda broker_id: (broker_id, FindCoordinatorRequest(key_type=1, coordinator_keys=["app"]), 4),
            lambda answer: None if answer.coordinators[0].error_code else answer.coordinators[0].node_id,
        )
        self.producer = self.insist(
            lambda _: (coordinator, InitProducerIdRequest(transactional_id="app", transaction_timeout_ms=600_000), 4),
            lambda answer: None if answer.error_code else (answer.producer_id, answer.producer_epoch),
        )
        topic = AddPartitionsToTxnRequest.V3AndBelowTopic(name=NAME.topic, partitions=[NAME.partition])
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="app",
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[topic],
        )
        self.insist(
            lambda _: (coordinator, add, 3),
            lambda answer: not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code or None,
        )
        state = self.cluster.state(NAME)
        assert state is not None
        leader = self.cluster.brokers[state.leader].broker
        held: list[Callable[[], None]] = []
        coordinators = leader.topology.coordinators
        admit = coordinators.admit
        coordinators.admit = lambda *asked: admit(*asked[:-1], lambda errors: held.append(lambda: asked[-1](errors)))
        self.ask(state.leader, self.batch(), 9, self.answered, lambda error: None)
        self.town.run(0.5)
        assert len(held) == 1
        abort = EndTxnRequest(
            transactional_id="app", producer_id=self.producer[0], producer_epoch=self.producer[1], committed=False
        )
        self.insist(lambda _: (coordinator, abort, 3), lambda answer: not answer.error_code or None)
        self.town.run(1)
        (let_go,) = held
        let_go()
        self.town.run(0.5)

    def insist(self, asked: Callable[[int], Any], wanted: Callable[[Any], Any]) -> Any:
        """Ask again and again until the answer is one."""
        for attempt in range(300):
            answers: list[Any] = []
            self.ask(*asked(attempt % 3 + 1), answers.append, lambda error: None)
            self.town.run(0.2)
            for answer in answers:
                found = wanted(answer)
                if found is not None:
                    return found
        raise AssertionError("nobody gave an answer")

    def batch(self) -> ProduceRequest:
        data = build_batch(
            [Record(0, 1, None, b"value")],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=0,
            is_transactional=True,
        )
        part = ProduceRequest.TopicData.PartitionData(index=NAME.partition, records=memoryview(data))
        topic = ProduceRequest.TopicData(name=NAME.topic, partition_data=[part])
        return ProduceRequest(transactional_id="app", acks=-1, timeout_ms=5000, topic_data=[topic])

    def answered(self, answer: Any) -> None:
        self.codes.append(answer.responses[0].partition_responses[0].error_code)


@pytest.fixture
def town() -> Generator[Town, None, None]:
    yield Town()


def test_batch_whose_transaction_was_aborted_meanwhile_is_refused(town):
    transactor = Transactor(town)
    transactor.play()
    assert transactor.codes == [INVALID_TXN_STATE]
    for broker in town.cluster.brokers.values():
        log = broker.partition(NAME).log
        assert (log.end_offset, log.last_stable_offset, log.producers.first_unstable_offset) == (11, 11, None)
