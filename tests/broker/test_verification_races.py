"""A marker is written between the coordinator's word about a transaction and the append of its first batch (KIP-890).

The word counts for the transaction that was asked about and no other: a batch that is appended after its marker would open a transaction
that nobody ends, and readers of committed data would wait for ever.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pytest

from milepost.broker.broker import Broker
from milepost.protocol import frames
from milepost.protocol.messages import (
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.on_loop import on_loop
from tests.broker.transaction_talk import Producer, Talk
from tests.broker.wire import Wire
from tests.waiting import PATIENCE

INVALID_TXN_STATE = 48


class HeldAnswers:
    """The coordinator answers, and its answers wait here."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch):
        self._broker = broker
        self._waiting: queue.Queue[Callable[[], None]] = queue.Queue()
        coordinators = broker.topology.coordinators
        admit = coordinators.admit

        def hold(admission: Any, name: str, producer: Any, partitions: Any, answer: Any) -> None:
            admit(admission, name, producer, partitions, lambda errors: self._waiting.put(lambda: answer(errors)))

        monkeypatch.setattr(coordinators, "admit", hold)

    def next(self) -> Callable[[], None]:
        """The one that came first, to be let go later."""
        answer = self._waiting.get(timeout=PATIENCE)
        return lambda: on_loop(self._broker, answer)


def batch_of(producer: Producer, sequence: int) -> ProduceRequest:
    batch = build_batch(
        [Record(0, 1000, b"k", b"v")],
        base_offset=0,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=0, records=memoryview(batch))
    return ProduceRequest(
        transactional_id="app", acks=-1, timeout_ms=60_000, topic_data=[data(name="visits", partition_data=[part])]
    )


def code_of(wire: Wire, version: int) -> int:
    _, response = frames.decode_response(0, version, wire.read_frame())
    return response.responses[0].partition_responses[0].error_code


def stable(wire: Wire, topic: str, partition: int) -> int:
    """The last stable offset."""
    asked = ListOffsetsRequest.Topic
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[asked(name=topic, partitions=[asked.Partition(partition_index=partition, timestamp=-1)])],
    )
    return wire.ask(request, 7).topics[0].partitions[0].offset


@pytest.fixture
def talk(broker):
    talk = Talk(broker.bootstrap_servers)
    talk.topic("visits", 1)
    yield talk
    talk.close()


def test_batch_whose_transaction_was_aborted_meanwhile_is_refused(broker, talk, wire, monkeypatch):
    held = HeldAnswers(broker, monkeypatch)
    producer = talk.init("app", version=4)
    talk.add("app", producer, "visits-0")
    wire.send(batch_of(producer, 0), 9)
    let_go = held.next()
    talk.end("app", producer, False, version=3)
    assert stable(talk.wire, "visits", 0) == 1, "the marker"
    let_go()
    assert code_of(wire, 9) == INVALID_TXN_STATE
    assert stable(talk.wire, "visits", 0) == 1
    talk.log("visits-0")
    assert talk.lines[-1] == "Fetch visits-0: stable 1 of 1 aborted none"


def test_word_about_the_transaction_before_does_not_open_the_next_one(broker, talk, wire, monkeypatch):
    held = HeldAnswers(broker, monkeypatch)
    producer = talk.init("app", version=4)
    talk.add("app", producer, "visits-0")
    wire.send(batch_of(producer, 0), 9)
    late = held.next()
    talk.end("app", producer, False, version=3)
    # The next transaction of the same producer asks as well, and that word is its own.
    talk.add("app", producer, "visits-0")
    with Wire(broker.bootstrap_servers) as other:
        other.send(batch_of(producer, 0), 9)
        let_go = held.next()
        late()
        assert code_of(wire, 9) == INVALID_TXN_STATE
        let_go()
        assert code_of(other, 9) == 0
    assert stable(talk.wire, "visits", 0) == 1
    talk.end("app", producer, True, version=3)
    assert stable(talk.wire, "visits", 0) == 3


def test_batch_that_the_coordinator_adds_is_refused_when_the_transaction_ends_first(broker, talk, wire, monkeypatch):
    held = HeldAnswers(broker, monkeypatch)
    producer = talk.init("app")
    wire.send(batch_of(producer, 0), 12)
    let_go = held.next()
    talk.end("app", producer, False)
    let_go()
    assert code_of(wire, 12) == INVALID_TXN_STATE
    assert stable(talk.wire, "visits", 0) == 1


def test_batches_of_an_open_transaction_ask_nobody(broker, talk, wire, monkeypatch):
    held = HeldAnswers(broker, monkeypatch)
    producer = talk.init("app", version=4)
    talk.add("app", producer, "visits-0")
    wire.send(batch_of(producer, 0), 9)
    held.next()()
    assert code_of(wire, 9) == 0
    assert wire.ask(batch_of(producer, 1), 9).responses[0].partition_responses[0].error_code == 0
    talk.end("app", producer, True, version=3)
    assert stable(talk.wire, "visits", 0) == 3


def test_without_verification_nobody_is_asked_and_nothing_is_refused(brokers, monkeypatch):
    broker = brokers.start({"transaction.partition.verification.enable": "false"})
    HeldAnswers(broker, monkeypatch)
    talk = Talk(broker.bootstrap_servers)
    talk.topic("visits", 1)
    talk.produce("app", Producer(4000, 0), "visits-0", 0, version=9)
    assert stable(talk.wire, "visits", 0) == 0
    talk.close()
    assert talk.lines == ["Produce 9 app p1/0 visits-0 sequence 0 x1: NONE 0"]


def test_verification_that_is_switched_on_counts_for_the_next_batch(brokers, monkeypatch):
    broker = brokers.start({"transaction.partition.verification.enable": "false"})
    talk = Talk(broker.bootstrap_servers)
    talk.topic("visits", 1)
    producer = talk.init("app", version=4)
    talk.add("app", producer, "visits-0")
    switch(talk.wire, "true")
    held = HeldAnswers(broker, monkeypatch)
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(batch_of(producer, 0), 9)
        let_go = held.next()
        talk.end("app", producer, False, version=3)
        let_go()
        assert code_of(wire, 9) == INVALID_TXN_STATE
    talk.close()


def switch(wire: Wire, value: str) -> None:
    resource = IncrementalAlterConfigsRequest.Resource
    config = resource.Config(name="transaction.partition.verification.enable", config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(resources=[resource(resource_type=4, resource_name="0", configs=[config])])
    assert wire.ask(request, 1).responses[0].error_code == 0


@pytest.mark.parametrize("version", [3, 4, 5])
def test_offsets_whose_transaction_was_aborted_meanwhile_are_refused(broker, talk, wire, monkeypatch, version):
    producer = talk.init("app", version=5 if version == 5 else 4)
    talk.coordinators("group")
    if version < 5:
        talk.add_offsets("app", producer, "group", version=3)
    held = HeldAnswers(broker, monkeypatch)
    asked = TxnOffsetCommitRequest.Topic
    part = asked.Partition(partition_index=0, committed_offset=7, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="app",
        group_id="group",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[asked(name="visits", partitions=[part])],
        member_id="",
        generation_id=-1,
    )
    wire.send(request, version)
    let_go = held.next()
    talk.end("app", producer, False, version=5 if version == 5 else 3)
    let_go()
    _, response = frames.decode_response(28, version, wire.read_frame())
    assert response.topics[0].partitions[0].error_code == INVALID_TXN_STATE
    partition = broker.groups.partition_for("group")
    talk.committed_offset("group", "visits-0", stable=True)
    assert talk.lines[-1].endswith("NONE NONE -1")
    assert stable(talk.wire, "__consumer_offsets", partition) == 1, "the marker is all there is"
