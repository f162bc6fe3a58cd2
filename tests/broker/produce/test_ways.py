"""Produce requests for one partition that look alike, as most producers send them, by each of their ways."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence

import pytest

from milepost.broker import dispatch
from milepost.broker.broker import Broker
from milepost.broker.produce import handler
from milepost.codec.compression import Codec
from milepost.net import processor
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.on_loop import on_loop
from tests.broker.produce import ways
from tests.broker.produce.ways import produced
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire
from tests.conftest import twin
from tests.waiting import until

NOW = 1_700_000_000_000
PRODUCE = 0
VERSIONS = range(3, 13)


@pytest.fixture
def served(way: str, brokers) -> Broker:
    broker = brokers.start({"num.partitions": "3"})
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
    return broker


@pytest.fixture
def client(served: Broker):
    with Wire(served.bootstrap_servers) as wire:
        yield wire


def batch(*values: bytes, **settings) -> bytes:
    return build_batch([Record(i, NOW + i, b"k", value) for i, value in enumerate(values)], base_offset=0, **settings)


def request_of(data: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    part = ProduceRequest.TopicData.PartitionData(index=partition, records=data)
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[ProduceRequest.TopicData(name="t", partition_data=[part])])


def answers(wire: Wire, requests: Sequence[ProduceRequest], version: int = 9) -> list[tuple[int, int, int]]:
    """Correlation id, error code and base offset of each answer; the requests go out in one piece, so that they lie together."""
    encoded = [frames.encode_request(PRODUCE, version, 70 + number, "c", request) for number, request in enumerate(requests)]
    wire.socket.sendall(b"".join(encoded))
    found = []
    for _ in requests:
        correlation_id, response = frames.decode_response(PRODUCE, version, wire.read_frame())
        part = response.responses[0].partition_responses[0]
        found.append((correlation_id, part.error_code, part.base_offset))
    return found


def stored(wire: Wire, partition: int = 0) -> list[bytes | None]:
    part = FetchRequest.Topic.Partition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic="t", partitions=[part])]
    answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11).responses[0].partitions[0]
    return [record.value for each in iter_batches(bytes(answer.records)) for record in each.records()]


@pytest.mark.parametrize("version", VERSIONS)
def test_many_requests_at_once_get_their_offsets_in_order(client, version):
    assert answers(client, [request_of(batch(b"first"))], version) == [(70, 0, 0)]
    requests = [request_of(batch(b"a%d" % number, b"b%d" % number)) for number in range(30)]
    assert answers(client, requests, version) == [(70 + number, 0, 1 + 2 * number) for number in range(30)]
    assert stored(client)[:4] == [b"first", b"a0", b"b0", b"a1"]
    assert len(stored(client)) == 61


def test_way_is_the_one_that_is_meant(way, client, served, monkeypatch):
    answers(client, [request_of(batch(b"first"))])
    handled = []
    handle = handler.finish
    monkeypatch.setattr(handler, "finish", lambda *given: handled.append(given) or handle(*given))
    answers(client, [request_of(batch(b"second"))] * 3)
    assert len(handled) == (3 if way == "handler" else 0)


def test_odd_ones_between_do_not_hold_up_the_others(client):
    odd = [
        batch(b"lz4", codec=Codec.LZ4),
        batch(b"damaged")[:-1] + b"!",
        batch(b"short")[:-1],
        b"",
        batch(b"one") + batch(b"two"),
        batch(b"no codec")[:22] + b"\7" + batch(b"no codec")[23:],
    ]
    requests = [request_of(batch(b"first"))]
    for data in odd:
        requests += [request_of(data), request_of(batch(b"next"))]
    found = [(code, offset) for _, code, offset in answers(client, requests)]
    assert found == [
        (0, 0),
        (0, 1),
        (0, 2),
        (2, -1),
        (0, 3),
        (87, -1),
        (0, 4),
        (87, -1),
        (0, 5),
        (87, -1),
        (0, 6),
        (2, -1),
        (0, 7),
    ]


def test_a_producer_that_sends_to_several_partitions_in_turn(client):
    requests = [request_of(batch(b"%d" % number), number % 3) for number in range(12)]
    for start in (0, 4):
        found = answers(client, requests)
        assert found == [(70 + number, 0, start + number // 3) for number in range(12)]
    assert stored(client, 2) == [b"2", b"5", b"8", b"11"] * 2


def test_acks_of_0_among_others_stays_unanswered(client):
    answers(client, [request_of(batch(b"first"))])
    silent = frames.encode_request(PRODUCE, 9, 5, "c", request_of(batch(b"silent"), acks=0))
    client.socket.sendall(silent)
    assert answers(client, [request_of(batch(b"last"))]) == [(70, 0, 2)]


def test_another_request_between_is_answered_in_its_turn(client):
    loud = frames.encode_request(PRODUCE, 9, 1, "c", request_of(batch(b"a")))
    client.socket.sendall(loud + loud + frames.encode_request(3, 4, 2, "c", MetadataRequest(topics=[])) + loud)
    assert [struct.unpack(">i", client.read_frame()[:4])[0] for _ in range(4)] == [1, 1, 2, 1]


def test_an_idempotent_producer_sees_its_duplicates_and_its_gaps(client):
    producer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)

    def numbered(sequence: int) -> ProduceRequest:
        return request_of(
            batch(b"v", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=sequence)
        )

    sequences = [0, 1, 2, 1, 3, 3, 5, 4]
    found = [(code, offset) for _, code, offset in answers(client, [numbered(sequence) for sequence in sequences])]
    assert found == [(0, 0), (0, 1), (0, 2), (0, 1), (0, 3), (0, 3), (45, -1), (0, 4)]


def test_a_fetch_that_waits_is_woken(client, served):
    answers(client, [request_of(batch(b"a")), request_of(batch(b"b"))])
    with Wire(served.bootstrap_servers) as waiting:
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=2, partition_max_bytes=1000)
        topics = [FetchRequest.Topic(topic="t", partitions=[part])]
        waiting.send(FetchRequest(max_wait_ms=50_000, min_bytes=1, topics=topics), 11)
        answers(client, [request_of(batch(b"c"))])
        _, answer = frames.decode_response(1, 11, waiting.read_frame())
    assert answer.responses[0].partitions[0].high_watermark == 3


def test_a_topic_that_goes_while_requests_come(client, served):
    requests = [request_of(batch(b"a"))] * 3
    assert [code for _, code, _ in answers(client, requests)] == [0, 0, 0]
    with Wire(served.bootstrap_servers) as admin:
        delete(admin, "t")
    assert [code for _, code, _ in answers(client, requests)] == [3, 3, 3]
    with Wire(served.bootstrap_servers) as admin:
        create(admin, wanted("t"))
    assert [offset for _, _, offset in answers(client, requests)] == [0, 1, 2]


def test_requests_in_pieces_of_any_size(client):
    requests = [frames.encode_request(PRODUCE, 9, number, "c", request_of(batch(b"x" * 50))) for number in range(20)]
    stream = b"".join(requests)
    for start in range(0, len(stream), 97):
        client.socket.sendall(stream[start : start + 97])
    assert [struct.unpack(">i", client.read_frame()[:4])[0] for _ in range(20)] == list(range(20))
    assert stored(client) == [b"x" * 50] * 20


@pytest.mark.parametrize("acks", [5, 2, -2])
def test_acks_that_nobody_knows_are_refused_each_time(client, acks):
    assert answers(client, [request_of(batch(b"x"), acks=acks)] * 4) == [(70 + number, 21, -1) for number in range(4)]
    assert stored(client) == []


def test_error_of_ours_ends_that_connection_and_no_other(client, served, monkeypatch, caplog):
    assert answers(client, [request_of(batch(b"first"))] * 2) == [(70, 0, 0), (71, 0, 1)]

    appended = served.replicas.appended

    def fail(*given: object) -> None:
        appended(*given)
        raise ValueError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(served.replicas, "appended", fail)
        with pytest.raises(ConnectionError):
            answers(client, [request_of(batch(b"second"))] * 3)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert str(record.exc_info[1]) == "planted"
    caplog.clear()
    with Wire(served.bootstrap_servers) as other:
        ((_, code, offset),) = answers(other, [request_of(batch(b"last"))])
        assert code == 0
        assert len(stored(other)) == offset + 1, "what was appended before the error is committed as well"


def test_frame_beyond_the_largest_request_ends_the_connection(way, brokers):
    broker = brokers.start({"socket.request.max.bytes": "2000"})
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
        assert answers(wire, [request_of(batch(b"small"))] * 3) == [(70, 0, 0), (71, 0, 1), (72, 0, 2)]
        with pytest.raises(ConnectionError):
            answers(wire, [request_of(batch(b"x" * 5000))])
    with Wire(broker.bootstrap_servers) as wire:
        assert stored(wire) == [b"small"] * 3


def test_what_was_answered_is_counted(client, served):
    answers(client, [request_of(batch(b"a", b"b"))] * 20)
    topic = on_loop(served, lambda: served.replicas.topic_metrics.of("t"))
    assert (topic.produce_requests, topic.messages_in) == (20, 40)
    assert topic.bytes_in == 20 * len(batch(b"a", b"b"))


def test_requests_behind_answers_that_nobody_reads(way, brokers, monkeypatch):
    """What was received meanwhile is looked at again later."""
    monkeypatch.setattr(processor, "MOST_WAITING_OUTPUT", 10_000)
    broker = brokers.start({"socket.send.buffer.bytes": "4096"})
    frame = frames.encode_request(PRODUCE, 9, 1, "c", request_of(batch(b"x")))
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender = threading.Thread(target=wire.socket.sendall, args=(frame * 1500,))
        sender.start()
        until(lambda: on_loop(broker, lambda: any(each.is_sending for each in broker.server.processors)))
        offsets = []
        for _ in range(1500):
            _, response = frames.decode_response(PRODUCE, 9, wire.read_frame())
            offsets.append(response.responses[0].partition_responses[0].base_offset)
        sender.join()
    assert offsets == list(range(1500))


@pytest.mark.parametrize("name", [None, "", "ä", "x" * 300, "x" * 32_767])
@pytest.mark.parametrize("version", [8, 9])
def test_clients_of_any_name(client, name, version):
    frame = frames.encode_request(PRODUCE, version, 3, name, request_of(batch(b"x")))
    client.socket.sendall(frame * 3)
    for offset in range(3):
        _, response = frames.decode_response(PRODUCE, version, client.read_frame())
        assert response.responses[0].partition_responses[0].base_offset == offset


def test_pass_within_a_pass(client, served):
    """A fetch that an append wakes is answered in the middle of it, and what its client sent behind the fetch is handled there and then."""
    answers(client, [request_of(batch(b"first"))])
    with Wire(served.bootstrap_servers) as waiting:
        answers(waiting, [request_of(batch(b"second"), partition=1)])
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=1, partition_max_bytes=1000)
        topics = [FetchRequest.Topic(topic="t", partitions=[part])]
        fetch = frames.encode_request(1, 11, 5, "c", FetchRequest(max_wait_ms=50_000, min_bytes=1, topics=topics))
        behind = frames.encode_request(PRODUCE, 11, 6, "other", request_of(batch(b"x", b"y"), partition=1))
        waiting.socket.sendall(fetch + behind * 3)
        until(lambda: on_loop(served, lambda: len(served.replicas.purgatory)))
        assert answers(client, [request_of(batch(b"a")), request_of(batch(b"b"), partition=1)] * 3) == [
            (70, 0, 1),
            (71, 0, 7),
            (72, 0, 2),
            (73, 0, 8),
            (74, 0, 3),
            (75, 0, 9),
        ]
        _, fetched = frames.decode_response(1, 11, waiting.read_frame())
        assert fetched.responses[0].partitions[0].high_watermark == 2
        offsets = [frames.decode_response(PRODUCE, 11, waiting.read_frame())[1] for _ in range(3)]
        assert [each.responses[0].partition_responses[0].base_offset for each in offsets] == [1, 3, 5]


def test_topics_are_not_remembered_without_end(brokers, monkeypatch):
    module = twin("milepost.broker.produce.frames", "pure")
    monkeypatch.setattr(module, "MOST_TOPICS", 3)
    monkeypatch.setattr(dispatch, "ProduceFrames", module.ProduceFrames)
    broker = brokers.start()
    names = [f"t{number}" for number in range(10)]
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, *map(wanted, names))
        for offset in range(3):
            for name in names:
                assert produced(wire, [ways.request_of({name: [(0, batch(b"x"))]})]) == [[(0, offset)]]
        reader = broker.dispatcher._produce_frames._reader
        assert on_loop(broker, lambda: len(reader._topics)) <= 3
        delete(wire, *names)
        assert produced(wire, [ways.request_of({name: [(0, batch(b"x"))]}) for name in names]) == [[(3, -1)]] * 10
