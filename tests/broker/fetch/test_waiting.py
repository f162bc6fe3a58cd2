"""Fetches over several partitions that wait: what wakes them, and what they then bring."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.log.log import Log
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, MetadataRequest, ProduceRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire
from tests.waiting import until

BATCH = build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * 50)], base_offset=0)
FETCH, VERSION = 1, 11


@pytest.fixture
def broker(brokers) -> Broker:
    broker = brokers.start({"num.partitions": "3"})
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
    return broker


@pytest.fixture
def consumer(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def send_fetch(wire: Wire, offsets: dict[int, int], *, min_bytes: int = 1, max_wait_ms: int = 50_000, **fields) -> None:
    parts = [
        FetchRequest.Topic.Partition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in offsets.items()
    ]
    topics = [FetchRequest.Topic(topic="t", partitions=parts)] if parts else []
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics, **fields)
    if "session_id" not in fields:
        # A fetch that is answered at once, so that the next one is of a kind that is known.
        given = [part.fetch_offset for part in parts]
        for part in parts:
            part.fetch_offset = 1 << 40
        wire.ask(request, VERSION)
        for part, offset in zip(parts, given, strict=True):
            part.fetch_offset = offset
    wire.send(request, VERSION)


def answer(wire: Wire):
    return frames.decode_response(FETCH, VERSION, wire.read_frame())[1]


def sizes(response) -> dict[int, int]:
    return {part.partition_index: len(part.records or b"") for topic in response.responses for part in topic.partitions}


def produce(wire: Wire, partition: int) -> None:
    part = ProduceRequest.TopicData.PartitionData(index=partition, records=BATCH)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[ProduceRequest.TopicData(name="t", partition_data=[part])])
    assert wire.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def test_bytes_of_all_partitions_count_towards_the_least(way, consumer, wire):
    produce(wire, 0)
    send_fetch(consumer, {0: 0, 1: 0, 2: 0}, min_bytes=3 * len(BATCH))
    for partition in (1, 1):
        produce(wire, partition)
    assert sizes(answer(consumer)) == {0: len(BATCH), 1: 2 * len(BATCH), 2: 0}


def test_partitions_without_news_are_left_out_of_a_session(way, consumer, wire):
    send_fetch(consumer, {0: 0, 1: 0, 2: 0}, session_id=0, session_epoch=0, max_wait_ms=0)
    first = answer(consumer)
    assert sizes(first) == {0: 0, 1: 0, 2: 0}
    send_fetch(consumer, {}, session_id=first.session_id, session_epoch=1)
    produce(wire, 2)
    assert sizes(answer(consumer)) == {2: len(BATCH)}
    send_fetch(consumer, {2: 1}, session_id=first.session_id, session_epoch=2)
    produce(wire, 0)
    assert sizes(answer(consumer)) == {0: len(BATCH)}


def test_a_partition_that_goes_wakes_whoever_waits_for_it(way, consumer, wire):
    send_fetch(consumer, {0: 0, 1: 0})
    delete(wire, "t")
    assert answer(consumer).responses[0].partitions[0].error_code == 3


def test_a_topic_that_comes_back_is_read_anew_by_a_session(consumer, wire):
    produce(wire, 0)
    send_fetch(consumer, {0: 1}, session_id=0, session_epoch=0, max_wait_ms=0)
    session_id = answer(consumer).session_id
    delete(wire, "t")
    create(wire, wanted("t"))
    send_fetch(consumer, {}, session_id=session_id, session_epoch=1)
    part = answer(consumer).responses[0].partitions[0]
    assert (part.error_code, part.high_watermark) == (1, 0)


def test_a_fetch_that_is_done_is_forgotten_under_every_partition(way, consumer, broker, wire):
    send_fetch(consumer, {0: 0, 1: 0, 2: 0})
    produce(wire, 1)
    answer(consumer)
    purgatory = broker.replicas.purgatory
    assert on_loop(broker, lambda: (len(purgatory), bool(purgatory.watchers))) == (0, False)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every read of records fails from now on."""

    def read(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Log, "read", read)


def test_read_that_fails_is_told_to_the_consumer_that_waits(way, broker, consumer, wire, monkeypatch):
    send_fetch(consumer, {0: 0, 1: 0})
    until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
    failing(monkeypatch, OSError(5, "Input/output error"))
    produce(wire, 0)
    assert [part.error_code for part in answer(consumer).responses[0].partitions] == [56, 0]


def test_error_of_ours_ends_the_fetch_that_waits_not_the_producer(way, broker, consumer, wire, monkeypatch, caplog):
    send_fetch(consumer, {0: 0})
    until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
    with monkeypatch.context() as patch:
        failing(patch, ValueError("planted"))
        produce(wire, 0)
        with pytest.raises(ConnectionError):
            consumer.read_frame()
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage().startswith(f"Fetch {VERSION} from ")
    caplog.clear()
    produce(wire, 0)
