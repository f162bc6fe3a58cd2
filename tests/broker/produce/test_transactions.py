"""Transactional batches in requests that lie together: the first one of a partition asks the coordinator, those behind it do not."""

from __future__ import annotations

import pytest

from milepost.broker.broker import Broker
from milepost.broker.produce import handler
from milepost.protocol.messages import AddPartitionsToTxnRequest, ProduceRequest
from tests.broker.produce.ways import batch, produced, request_of, stored
from tests.broker.talking import Transactional
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire


@pytest.fixture
def served(way: str, brokers) -> Broker:
    return brokers.start()


@pytest.fixture
def wire(served: Broker):
    with Wire(served.bootstrap_servers) as wire:
        create(wire, wanted("t", 3))
        yield wire


class Writer(Transactional):
    def add(self, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name="t", partitions=list(partitions))],
        )
        results = self.wire.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition
        assert [each.partition_error_code for each in results] == [0] * len(partitions)

    def batch(self, sequence: int, **changed) -> bytes:
        said = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "is_transactional": True, **changed}
        return batch(b"%d" % sequence, base_sequence=sequence, **said)

    def request(self, *sequences: int, transactional_id: str | None = "app", **changed) -> ProduceRequest:
        """A batch for each of the first partitions."""
        parts = [(number, self.batch(sequence, **changed)) for number, sequence in enumerate(sequences)]
        return request_of({"t": parts}, transactional_id=transactional_id)


@pytest.mark.parametrize("version", [3, 8, 11, 12])
def test_batches_of_a_transaction(wire, version):
    writer = Writer(wire, "app")
    writer.add(0, 1)
    requests = [writer.request(sequence, sequence) for sequence in range(6)]
    assert produced(wire, requests, version) == [[(0, number), (0, number)] for number in range(6)]
    assert writer.end(committed=True) == 0
    assert stored(wire, "t", 1) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_partition_that_joins_in_the_middle(wire):
    writer = Writer(wire, "app")
    writer.add(0, 1)
    assert produced(wire, [writer.request(0), writer.request(1), writer.request(2, 0), writer.request(3, 1)]) == [
        [(0, 0)],
        [(0, 1)],
        [(0, 2), (0, 0)],
        [(0, 3), (0, 1)],
    ]


def test_partition_that_was_not_added_is_refused_each_time(wire):
    writer = Writer(wire, "app")
    writer.add(0)
    assert produced(wire, [writer.request(0), writer.request(1, 0), writer.request(2, 0)]) == [
        [(0, 0)],
        [(0, 1), (48, -1)],
        [(0, 2), (48, -1)],
    ]


def test_batch_behind_the_end_of_its_transaction_is_refused(wire):
    writer = Writer(wire, "app")
    writer.add(0)
    assert produced(wire, [writer.request(0), writer.request(1)]) == [[(0, 0)], [(0, 1)]]
    assert writer.end(committed=False) == 0
    assert produced(wire, [writer.request(2), writer.request(3)]) == [[(48, -1)], [(48, -1)]]


def test_batches_that_do_not_say_what_their_request_says(wire):
    writer = Writer(wire, "app")
    writer.add(0)
    requests = [
        writer.request(0),
        writer.request(1, transactional_id=None),
        writer.request(1, is_transactional=False),
        writer.request(1),
        writer.request(2, producer_epoch=writer.epoch + 5),
        writer.request(4),
        writer.request(2),
    ]
    found = produced(wire, requests)
    assert found == [[(0, 0)], [(48, -1)], [(48, -1)], [(0, 1)], [(47, -1)], [(45, -1)], [(0, 2)]]


def test_way_of_a_transaction(way, wire, monkeypatch):
    writer = Writer(wire, "app")
    writer.add(0, 1)
    produced(wire, [writer.request(0, 0)])
    handled = []
    handle = handler.finish
    monkeypatch.setattr(handler, "finish", lambda *given: handled.append(given) or handle(*given))
    produced(wire, [writer.request(sequence, sequence) for sequence in range(1, 5)])
    assert len(handled) == (4 if way == "handler" else 0)
