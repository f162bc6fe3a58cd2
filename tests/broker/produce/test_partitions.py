"""Produce requests of several partitions: what each is told, in every version, with every acks."""

from __future__ import annotations

import pytest

from milepost.broker.broker import Broker
from milepost.broker.produce import handler
from milepost.codec.compression import Codec
from milepost.protocol import frames
from milepost.protocol.messages import InitProducerIdRequest
from tests.broker.on_loop import on_loop
from tests.broker.produce.ways import PRODUCE, batch, produced, received, request_of, send, stored
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire


@pytest.fixture
def served(way: str, brokers) -> Broker:
    return brokers.start()


@pytest.fixture
def wire(served: Broker):
    with Wire(served.bootstrap_servers) as wire:
        create(
            wire,
            wanted("a", 3),
            wanted("b", 2),
            wanted("keyed", cleanup_policy="compact"),
            wanted("small", max_message_bytes="100"),
        )
        yield wire


@pytest.mark.parametrize("version", range(3, 14))
def test_each_partition_gets_its_offsets_in_every_version(wire, served, version):
    ids = {name: served.cluster.topics[name].topic_id if version >= 13 else name for name in ("a", "b")}
    requests = [request_of({ids["a"]: [(2, batch(b"x", b"y")), (0, batch(b"z"))], ids["b"]: [(1, batch(b"w"))]})] * 5
    found = produced(wire, requests, version)
    assert found == [[(0, 2 * number), (0, number), (0, number)] for number in range(5)]
    assert stored(wire, "a", 2) == [b"x", b"y"] * 5
    assert stored(wire, "b", 1) == [b"w"] * 5


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_answers_are_the_same_bytes(wire, served, version):
    name = served.cluster.topics["a"].topic_id if version >= 13 else "a"
    request = request_of({name: [(1, batch(b"x")), (2, batch(b"y"))]}, acks=1)
    send(wire, [request] * 2, version)
    for offset in range(2):
        frame = wire.read_frame()
        correlation_id, response = frames.decode_response(PRODUCE, version, frame)
        assert correlation_id == 70 + offset
        assert frames.encode_response(PRODUCE, version, correlation_id, response)[4:] == frame
        assert [
            (part.index, part.log_append_time_ms, part.error_message) for part in response.responses[0].partition_responses
        ] == [
            (1, -1, None),
            (2, -1, None),
        ]


def test_one_that_is_refused_leaves_the_others_as_they_are(wire):
    damaged = batch(b"damaged")[:-1] + b"!"
    requests = [
        request_of({"a": [(0, batch(b"first")), (1, damaged), (2, batch(b"third"))]}),
        request_of({"a": [(0, batch(b"next"))], "small": [(0, batch(b"x" * 200))], "b": [(0, batch(b"last"))]}),
    ]
    assert produced(wire, [request_of({"a": [(0, batch(b"zero"))]}), *requests, *requests]) == [
        [(0, 0)],
        [(0, 1), (2, -1), (0, 0)],
        [(0, 2), (10, -1), (0, 0)],
        [(0, 3), (2, -1), (0, 1)],
        [(0, 4), (10, -1), (0, 1)],
    ]
    assert stored(wire, "a", 1) == []


def test_sentences_about_records_are_told_as_well(wire):
    send(wire, [request_of({"b": [(0, batch(b"x"))], "keyed": [(0, keyless())]})] * 2)
    for _ in range(2):
        _, response = frames.decode_response(PRODUCE, 9, wire.read_frame())
        (part,) = response.responses[1].partition_responses
        assert part.error_code == 87
        assert part.error_message == "1 of 1 records were refused; record 0: a compacted topic takes no record without a key"
        assert [(each.batch_index, each.batch_index_error_message) for each in part.record_errors] == [
            (0, "a compacted topic takes no record without a key")
        ]


def keyless() -> bytes:
    from milepost.record.builder import build_batch
    from milepost.record.records import Record

    return build_batch([Record(0, 1_700_000_000_000, None, b"v")], base_offset=0)


def test_requests_that_name_what_is_not_here_or_a_partition_twice(wire):
    requests = [
        request_of({"a": [(0, batch(b"1"))]}),
        request_of({"a": [(0, batch(b"2"))], "nowhere": [(0, batch(b"x"))]}),
        request_of({"a": [(0, batch(b"3")), (7, batch(b"x"))]}),
        request_of([("a", [(0, batch(b"lost"))]), ("a", [(0, batch(b"4"))])]),
        request_of([("a", [(0, batch(b"5"))]), ("a", [(1, batch(b"6"))])]),
        request_of({"__consumer_offsets": [(0, batch(b"x"))], "a": [(0, batch(b"7"))]}),
        request_of({"a": []}),
        request_of({}),
        request_of({"a": [(0, batch(b"8"))]}),
    ]
    assert produced(wire, requests) == [
        [(0, 0)],
        [(0, 1), (3, -1)],
        [(0, 2), (3, -1)],
        [(0, 3)],
        [(0, 4), (0, 0)],
        [(3, -1), (0, 5)],
        [],
        [],
        [(0, 6)],
    ]
    assert stored(wire, "a") == [b"1", b"2", b"3", b"4", b"5", b"7", b"8"]


def test_without_acknowledgement_an_error_closes_the_connection(wire, served):
    silent = [request_of({"a": [(0, batch(b"%d" % number)), (1, batch(b"x"))]}, acks=0) for number in range(5)]
    send(wire, silent)
    assert produced(wire, [request_of({"a": [(0, batch(b"loud"))]})]) == [[(0, 5)]]
    refused = request_of({"a": [(0, batch(b"taken"))], "small": [(0, batch(b"x" * 200))]}, acks=0)
    send(wire, [request_of({"a": [(0, batch(b"before"))]}), refused, request_of({"a": [(0, batch(b"never"))]})])
    assert received(wire) == [(0, 6)], "what was acknowledged before goes out first"
    with pytest.raises(ConnectionError):
        wire.read_frame()
    with Wire(served.bootstrap_servers) as other:
        assert stored(other, "a") == [b"0", b"1", b"2", b"3", b"4", b"loud", b"before", b"taken"]


def test_idempotent_producer_of_several_partitions(wire):
    producer = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)

    def numbered(sequence: int) -> bytes:
        return batch(b"v", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=sequence)

    sequences = [(0, 0), (1, 1), (1, 2), (3, 2), (2, 4)]
    requests = [request_of({"a": [(0, numbered(first)), (1, numbered(second))]}, acks=1) for first, second in sequences]
    assert produced(wire, requests) == [
        [(0, 0), (0, 0)],
        [(0, 1), (0, 1)],
        [(0, 1), (0, 2)],
        [(45, -1), (0, 2)],
        [(0, 2), (45, -1)],
    ]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.name)
@pytest.mark.parametrize("version", [6, 7, 12])
def test_compressed_batches(wire, codec, version):
    requests = [request_of({"a": [(0, batch(b"v" * 100, codec=codec)), (1, batch(b"plain"))]})] * 15
    code = 76 if codec is Codec.ZSTD and version < 7 else 0
    found = produced(wire, requests, version)
    assert found == [[(code, -1 if code else number), (0, number)] for number in range(15)]


def test_batch_that_is_decompressed_to_more_than_is_quick_is_looked_at_aside(wire, served):
    large = batch(b"v" * (2 << 20), codec=Codec.ZSTD)
    assert len(large) < 1000
    requests = [request_of({"a": [(0, batch(b"x")), (1, large)]})] * 3
    assert produced(wire, requests) == [[(0, number), (0, number)] for number in range(3)]
    assert on_loop(served, lambda: served.record_examiner.batches_in_background) == 3


def test_batch_beyond_the_budget_of_its_request_is_too_large(way, brokers):
    broker = brokers.start({"milepost.produce.max.decompressed.bytes": "1000"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("a", 2))
        requests = [request_of({"a": [(0, batch(b"x")), (1, batch(b"v" * 5000, codec=Codec.LZ4))]})] * 3
        assert produced(wire, requests) == [[(0, number), (10, -1)] for number in range(3)]
        assert on_loop(broker, lambda: broker.record_examiner.batches_refused) == 3


def test_topic_in_another_codec(way, brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("packed", compression_type="gzip"), wanted("a"))
        requests = [request_of({"packed": [(0, batch(b"v" * 50))], "a": [(0, batch(b"x"))]})] * 3
        assert produced(wire, requests) == [[(0, number), (0, number)] for number in range(3)]
        assert stored(wire, "packed") == [b"v" * 50] * 3


def test_more_partitions_than_are_taken_in_one_go(wire, served):
    with Wire(served.bootstrap_servers) as admin:
        create(admin, wanted("wide", 130))
    few, many = ([(number, batch(b"%d" % number)) for number in range(count)] for count in (99, 130))
    assert produced(wire, [request_of({"wide": few}), request_of({"wide": many}), request_of({"wide": few})]) == [
        [(0, 0)] * 99,
        [(0, 1)] * 99 + [(0, 0)] * 31,
        [(0, 2)] * 99,
    ]


def test_topic_that_is_made_anew_while_requests_come(wire, served):
    request = request_of({"a": [(0, batch(b"x"))], "b": [(0, batch(b"y"))]})
    assert produced(wire, [request] * 2) == [[(0, 0), (0, 0)], [(0, 1), (0, 1)]]
    with Wire(served.bootstrap_servers) as admin:
        delete(admin, "a")
        assert produced(wire, [request] * 2) == [[(3, -1), (0, 2)], [(3, -1), (0, 3)]]
        create(admin, wanted("a"))
    assert produced(wire, [request] * 2) == [[(0, 0), (0, 4)], [(0, 1), (0, 5)]]


def test_way_of_requests_with_several_partitions(way, wire, monkeypatch):
    handled = []
    handle = handler.finish
    monkeypatch.setattr(handler, "finish", lambda *given: handled.append(given) or handle(*given))
    requests = [request_of({"a": [(0, batch(b"x")), (1, batch(b"y", codec=Codec.LZ4))], "b": [(0, batch(b"z"))]})] * 4
    produced(wire, requests)
    assert len(handled) == (4 if way == "handler" else 1), "the first of a connection goes to the handler"
