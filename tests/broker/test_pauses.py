"""Requests that name thousands of things are handled in as many pieces: others are served between any two."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import GeneratorType, SimpleNamespace
from typing import Any

import pytest

from milepost.broker import inter_broker
from milepost.broker.broker import Broker
from milepost.broker.produce import record_examiner
from milepost.broker.requests import alter_partition
from milepost.codec.compression import Codec
from milepost.protocol import frames, headers
from milepost.protocol.apis import BY_NAME
from milepost.protocol.messages import (
    AlterPartitionRequest,
    DeleteRecordsRequest,
    DescribeProducersRequest,
    FetchRequest,
    InitializeShareGroupStateRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.security.principal import ANONYMOUS
from tests.broker.on_loop import on_loop
from tests.broker.scraping import scrape
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire
from tests.coordinator.in_pieces import Pieces, finish
from tests.waiting import PATIENCE, until

MANY = 2000


def parts(cls: Any, **fields: Any) -> list[Any]:
    name = "partition_index" if "partition_index" in cls.__slots__ else "partition" if "partition" in cls.__slots__ else "index"
    return [cls(**{name: number, **fields}) for number in range(MANY)]


Offsets, Epochs, Deleted = ListOffsetsRequest.Topic, OffsetForLeaderEpochRequest.Topic, DeleteRecordsRequest.Topic
Fetched, Produced, Described = FetchRequest.Topic, ProduceRequest.TopicData, DescribeProducersRequest.Topic
REQUESTS = {
    "ListOffsets": ListOffsetsRequest(topics=[Offsets(name="t", partitions=parts(Offsets.Partition, timestamp=5))]),
    "OffsetForLeaderEpoch": OffsetForLeaderEpochRequest(topics=[Epochs(topic="t", partitions=parts(Epochs.Partition))]),
    "DeleteRecords": DeleteRecordsRequest(topics=[Deleted(name="t", partitions=parts(Deleted.Partition, offset=0))]),
    "DescribeProducers": DescribeProducersRequest(topics=[Described(name="t", partition_indexes=list(range(MANY)))]),
    "Fetch": FetchRequest(max_bytes=1000, session_epoch=-1, topics=[Fetched(topic="t", partitions=parts(Fetched.Partition))]),
    "Produce": ProduceRequest(acks=1, topic_data=[Produced(name="t", partition_data=parts(Produced.PartitionData))]),
}


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", 3))
        yield wire


@pytest.mark.parametrize("name", REQUESTS)
def test_there_is_a_pause_for_each_partition(broker, wire, name):
    """Counted, not timed."""
    version = {"Produce": 9, "Fetch": 11}.get(name, BY_NAME[name].served[1])
    context = SimpleNamespace(
        broker=broker,
        version=version,
        client_id="",
        principal=ANONYMOUS,
        may_read=None,
        connection={},
        request=SimpleNamespace(size=1000),
        speaks_for=lambda broker_id: False,
    )

    def pauses() -> int:
        work = broker.dispatcher.handler_of(BY_NAME[name])(REQUESTS[name], context)  # type: ignore[arg-type]
        assert type(work) is GeneratorType
        return sum(1 for _ in work)

    assert on_loop(broker, pauses) >= MANY


def test_waiting_fetch_of_many_partitions_is_answered_in_pieces(broker, wire, monkeypatch):
    wire.send(
        FetchRequest(
            max_bytes=1 << 20,
            min_bytes=1,
            max_wait_ms=60_000,
            topics=[Fetched(topic="t", partitions=[Fetched.Partition(partition=n, partition_max_bytes=1000) for n in range(3)])],
        ),
        11,
    )
    until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1, "the fetch waits")
    ran: list[int] = []
    run = broker.dispatcher.slices.run
    monkeypatch.setattr(broker.dispatcher.slices, "run", lambda work, context: ran.append(context.api_key) or run(work, context))
    with Wire(broker.bootstrap_servers) as other:
        produce(other, "t", [b"v"])
    assert wire.read_frame()
    assert BY_NAME["Fetch"].key in ran


def test_others_are_served_while_a_batch_that_holds_much_is_looked_into(brokers, monkeypatch):
    """On a thread of its own; and one that holds more than a request may is refused. Both are counted."""
    broker = brokers.start({"milepost.metrics.port": "0", "milepost.produce.max.decompressed.bytes": "3000000"})
    go_on = threading.Event()
    examine = record_examiner.examine
    monkeypatch.setattr(record_examiner, "examine", lambda *given: go_on.wait(PATIENCE) and examine(*given))
    with Wire(broker.bootstrap_servers) as long, Wire(broker.bootstrap_servers) as other:
        create(other, wanted("t"))
        for size in (2_000_000, 4_000_000):
            batch = build_batch([Record(0, 1, b"k", bytes(size))], base_offset=0, codec=Codec.GZIP)
            part = Produced.PartitionData(index=0, records=memoryview(batch))
            long.send(ProduceRequest(acks=1, topic_data=[Produced(name="t", partition_data=[part])]), 9)
        until(lambda: broker.dispatcher.slices.suspended == 1)
        assert produce(other, "t", [b"first"]) == 0
        go_on.set()
        answers = [frames.decode_response(0, 9, long.read_frame())[1] for _ in range(2)]
        found = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(part.error_code, part.base_offset) for part in found] == [(0, 1), (10, -1)]
        counts = scrape(broker)
    assert counts.value("milepost_produce_batches_aside_total") == 2
    assert counts.value("milepost_produce_batches_over_budget_total") == 1


def test_what_only_brokers_send_is_refused_in_pieces():
    """Where the answer names every partition."""
    topic = InitializeShareGroupStateRequest.Topic
    partitions = [topic.Partition(partition=number, state_epoch=0, start_offset=0) for number in range(MANY)]
    request = InitializeShareGroupStateRequest(group_id="g", topics=[topic(topic_id=b"t" * 16, partitions=partitions)])
    frame = frames.encode_request(83, 0, 7, "client", request)[4:]
    pieces = Pieces()
    (result,) = finish(inter_broker.refusing(headers.read_request_header(frame), frame), pieces).results
    assert pieces.count > MANY
    assert {part.error_code for part in result.partitions} == {31}


def test_names_of_topics_by_their_ids_are_looked_up_once_for_all():
    """A leader may ask about topics that the controller has not told anybody of; each was looked for among all there are."""
    looked_up: list[str] = []
    topics = {f"topic-{number}": b"%016d" % number for number in range(MANY)}
    requests = SimpleNamespace(topic_id=lambda name: looked_up.append(name) or topics[name])
    controller: Any = SimpleNamespace(context=SimpleNamespace(topic_ids=topics), parts=SimpleNamespace(requests=requests))
    broker: Any = SimpleNamespace(cluster=SimpleNamespace(name_of=lambda topic_id: None))
    ids = [b"%016d" % number for number in range(2 * MANY)]
    asked = AlterPartitionRequest(topics=[AlterPartitionRequest.Topic(topic_id=topic_id, partitions=[]) for topic_id in ids])
    pieces = Pieces()
    names = [name for _, name in finish(alter_partition.named(asked, broker, controller), pieces)]
    assert names == [*topics, *[None] * MANY]
    assert len(looked_up) == MANY
    assert pieces.count > 2 * MANY
