"""In a cluster: a marker is written between the coordinator's word about a transaction and the append of its first batch (KIP-890).

Once with the word held back, and from many seeds: a producer sends its first batch and aborts without waiting for the answer, while what
the coordinator tells the leader, the word and the marker, is on its way for a while. Whatever comes first, no transaction may stay open
that the coordinator knows nothing of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest

from milepost.log.manager import LogManager
from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.replica.partition import Partition
from tests.simulation.clients import Client
from tests.simulation.test_strays import NAME, Town

INVALID_TXN_STATE, UNKNOWN = 48, -1
SEEDS = 20
ROUNDS = 4
PATIENCE_SECONDS = 60


class Transactor(Client):
    """One producer, whose first batch is on its way while its transaction is aborted."""

    def __init__(self, town: Town, name: str = "app"):
        super().__init__(town.cluster, name)
        self.town = town
        self.codes: list[int] = []
        self.sequence = 0
        self.coordinator = self.insist(
            lambda broker_id: (broker_id, FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4),
            lambda answer: None if answer.coordinators[0].error_code else answer.coordinators[0].node_id,
        )
        self.producer = self.insist(
            lambda _: (self.coordinator, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000), 4),
            lambda answer: None if answer.error_code else (answer.producer_id, answer.producer_epoch),
        )
        state = self.cluster.state(NAME)
        assert state is not None
        self.leader = state.leader

    def start_timers(self) -> None:
        topic = AddPartitionsToTxnRequest.V3AndBelowTopic(name=NAME.topic, partitions=[NAME.partition])
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[topic],
        )
        self.insist(
            lambda _: (self.coordinator, add, 3),
            lambda answer: not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code or None,
        )

    def send(self) -> None:
        self.ask(self.leader, self.batch(), 9, self.answered, lambda error: self.codes.append(UNKNOWN))

    def abort(self) -> None:
        abort = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer[0], producer_epoch=self.producer[1], committed=False
        )
        self.insist(lambda _: (self.coordinator, abort, 3), lambda answer: not answer.error_code or None)

    def play(self) -> None:
        """The word is held back until the marker is there."""
        self.start_timers()
        leader = self.cluster.brokers[self.leader].broker
        held: list[Callable[[], None]] = []
        coordinators = leader.topology.coordinators
        admit = coordinators.admit
        coordinators.admit = lambda *asked: admit(*asked[:-1], lambda errors: held.append(lambda: asked[-1](errors)))
        self.send()
        self.town.run(0.5)
        assert len(held) == 1
        self.abort()
        self.town.run(1)
        (let_go,) = held
        let_go()
        self.town.run(0.5)

    def race(self, random: Random) -> bool:
        """Transactions that are aborted without waiting for their first batch. Whether one of them stays open."""
        network, brokers = self.cluster.network, self.cluster.brokers
        for number in range(ROUNDS):
            self.start_timers()
            network.lagging[brokers[self.coordinator].name, brokers[self.leader].name] = random.choice((0.1, 0.5, 1.5))
            self.send()
            self.town.run(random.uniform(0, 0.2))
            self.abort()
            for _ in range(PATIENCE_SECONDS):
                self.town.run(1)
                if len(self.codes) > number and self.partition.log.last_stable_offset == self.partition.log.end_offset:
                    break
            else:
                return True
            network.lagging.clear()
            assert self.codes[-1] in (0, INVALID_TXN_STATE, UNKNOWN)
            entry = self.partition.log.producers.last_entry(self.producer[0])
            self.sequence = 0 if entry is None else entry.last_sequence + 1
        return False

    @property
    def partition(self) -> Partition:
        """At its leader."""
        found = self.cluster.brokers[self.leader].partition(NAME)
        assert found is not None
        return found

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
            base_sequence=self.sequence,
            is_transactional=True,
        )
        part = ProduceRequest.TopicData.PartitionData(index=NAME.partition, records=memoryview(data))
        topic = ProduceRequest.TopicData(name=NAME.topic, partition_data=[part])
        return ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=[topic])

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


def race(seed: int) -> bool:
    town = Town()
    town.cluster.world.random.seed(seed)
    return Transactor(town, f"app-{seed}").race(Random(seed))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_transaction_stays_open_whatever_comes_first(seed):
    assert not race(seed)


def test_partitions_that_do_not_ask_for_the_guard_are_noticed(monkeypatch):
    """As it was while nobody said that transactions are verified."""
    monkeypatch.setattr(LogManager, "verifies_transactions", property(lambda self: False, lambda self, value: None))
    assert any(race(seed) for seed in range(SEEDS))
