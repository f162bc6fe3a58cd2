"""Requests that wait for followers, and leaders that may not append, in requests that lie together."""

from __future__ import annotations

import select

import pytest

from milepost.broker.broker import Broker
from milepost.protocol.messages import InitProducerIdRequest, MetadataRequest
from milepost.topic_partition import TopicPartition
from tests.broker.on_loop import on_loop
from tests.broker.produce.replicas import Replicated
from tests.broker.produce.ways import batch, produced, received, request_of, send
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.waiting import until


@pytest.fixture
def served(way: str, brokers) -> Broker:
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("r", 2, min_insync_replicas="2"), wanted("solo"))
    return broker


@pytest.fixture
def led(served: Broker) -> Replicated:
    return Replicated(served, TopicPartition("r", 0))


@pytest.fixture
def wire(served: Broker):
    with Wire(served.bootstrap_servers) as wire:
        produced(wire, [request_of({"solo": [(0, batch(b"first of the connection"))]}, acks=1)])
        yield wire


def is_silent(wire: Wire) -> bool:
    return not select.select([wire.socket], [], [], 0.05)[0]


def to_r(value: bytes, acks: int = -1, **given):
    return request_of({"r": [(0, batch(value))]}, acks=acks, **given)


def ends(replicated: Replicated) -> int:
    return on_loop(replicated.broker, lambda: replicated.partition.log.end_offset)


def test_answers_come_when_the_follower_has_the_batches_in_their_order(wire, led):
    send(wire, [to_r(b"%d" % number) for number in range(5)])
    assert is_silent(wire)
    assert ends(led) == 5, "batches that were sent ahead are replicated together"
    led.fetched(2)
    assert [received(wire) for _ in range(2)] == [[(0, 0)], [(0, 1)]]
    assert is_silent(wire)
    led.fetched(5)
    assert [received(wire) for _ in range(3)] == [[(0, 2)], [(0, 3)], [(0, 4)]]


def test_what_needs_no_follower_waits_behind_what_does(wire, led):
    requests = [
        to_r(b"waits"),
        request_of({"solo": [(0, batch(b"x"))]}),
        to_r(b"leader is enough", acks=1),
        to_r(b"silent", acks=0),
        request_of({"solo": [(0, batch(b"damaged")[:-1] + b"!")]}),
    ]
    send(wire, requests)
    wire.send(MetadataRequest(topics=[]), 4)
    assert is_silent(wire)
    led.fetched(1)
    assert [received(wire) for _ in range(4)] == [[(0, 0)], [(0, 1)], [(0, 1)], [(2, -1)]]
    assert wire.read_frame()[:4] == (wire._correlation_id).to_bytes(4, "big")


def test_request_for_several_partitions_waits_for_all_of_them(wire, led, served):
    other = Replicated(served, TopicPartition("r", 1))
    send(wire, [request_of({"r": [(0, batch(b"x")), (1, batch(b"y"))], "solo": [(0, batch(b"z"))]})] * 2)
    led.fetched(2)
    assert is_silent(wire)
    other.fetched(1)
    assert received(wire) == [(0, 0), (0, 0), (0, 1)]
    other.fetched(2)
    assert received(wire) == [(0, 1), (0, 1), (0, 2)]


def test_time_is_over_for_what_a_follower_does_not_fetch(wire, led):
    send(wire, [request_of({"r": [(0, batch(b"x"))], "solo": [(0, batch(b"y"))]}, timeout_ms=1)])
    assert received(wire) == [(7, -1), (0, 1)]
    assert ends(led) == 1


def test_leadership_is_lost_while_a_request_waits(wire, led):
    send(wire, [to_r(b"x"), to_r(b"y")])
    led.follow()
    assert [received(wire) for _ in range(2)] == [[(6, -1)], [(6, -1)]]
    assert produced(wire, [to_r(b"z"), request_of({"r": [(0, batch(b"z"))], "solo": [(0, batch(b"y"))]})]) == [
        [(6, -1)],
        [(6, -1), (0, 1)],
    ]


def test_more_requests_than_may_wait_for_one_connection(wire, led):
    send(wire, [to_r(b"%d" % number) for number in range(150)])
    assert is_silent(wire)
    found = []
    while len(found) < 150:
        end = ends(led)
        led.fetched(end)
        found += [received(wire) for _ in range(end - len(found))]
    assert found == [[(0, number)] for number in range(150)]


def test_client_that_leaves_while_its_request_waits_ends_nothing(wire, led, served):
    send(wire, [to_r(b"x")] * 3)
    until(lambda: ends(led) == 3, "three batches were not appended")
    wire.close()
    led.fetched(3)
    with Wire(served.bootstrap_servers) as other:
        assert produced(other, [request_of({"solo": [(0, batch(b"y"))]})]) == [[(0, 1)]]


def test_fenced_leader_appends_nothing(wire, led):
    led.is_fenced = True
    assert produced(wire, [to_r(b"x", acks=1), to_r(b"y")]) == [[(6, -1)], [(6, -1)]]
    led.is_fenced = False
    assert ends(led) == 0


def test_too_few_replicas_in_sync(wire, served):
    lonely = Replicated(served, TopicPartition("r", 0), isr=(1,))
    assert produced(wire, [to_r(b"x"), to_r(b"y", acks=1), to_r(b"z")]) == [[(19, -1)], [(0, 0)], [(19, -1)]]
    assert ends(lonely) == 1


def test_batches_behind_one_that_was_refused_are_refused_alike(wire, led):
    producer = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)

    def numbered(*sequences: int):
        said = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        return [request_of({"r": [(0, batch(b"v", base_sequence=each, **said))]}, acks=1) for each in sequences]

    assert produced(wire, numbered(0, 1)) == [[(0, 0)], [(0, 1)]]
    led.is_fenced = True
    assert produced(wire, numbered(2)) == [[(6, -1)]]
    led.is_fenced = False
    assert produced(wire, numbered(3, 4)) == [[(6, -1)], [(6, -1)]]
    assert produced(wire, numbered(2, 3, 4)) == [[(0, 2)], [(0, 3)], [(0, 4)]]


def test_refusals_and_waits_are_counted(wire, led, served):
    topic = on_loop(served, lambda: served.replicas.topic_metrics.of("r"))
    led.is_fenced = True
    produced(wire, [to_r(b"x"), to_r(b"y")])
    led.is_fenced = False
    send(wire, [to_r(b"z")] * 2)
    led.fetched(2)
    assert [received(wire) for _ in range(2)] == [[(0, 0)], [(0, 1)]]
    assert (topic.produce_requests, topic.failed_produce_requests, topic.messages_in) == (4, 0, 2)
    meter = served.request_metrics.meter("Produce", 9)
    assert on_loop(served, lambda: meter.errors[6]) == 2
    assert on_loop(served, lambda: meter.errors[0] + meter.successes) == 3
    assert on_loop(served, lambda: meter.requests) == 5
