"""Produce requests whose bytes are few and whose work is much: what they cost is bounded by their size.

CPU time of the broker is measured, with limits several times above what it takes: before there were bounds it took seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import pytest

from milepost.protocol.messages import CreateTopicsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest
from milepost.record.batch import HEADER_SIZE, RecordBatch
from milepost.record.batches import iter_batches
from tests.broker.wire import Wire
from tests.hostile.besieged import NOW, Besieged, fetch, produce
from tests.hostile.test_records import changed, with_payload

ZSTD = 4
MILLION = 1_000_000
LEAST = bytes.fromhex("0c 00 00 00 01 00 00")  # of a record: no key, nothing in it, offset delta 0
TOO_LARGE = 10
OLD = 1_000_000
A_HUNDRED_AND_TWENTY_SEVEN_MB = 127 << 20


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def tiny(count: int) -> bytes:
    """Records that all say they are the first: a few hundred bytes."""
    return with_payload(zstd(LEAST * count), ZSTD, count)


def counted(count: int) -> bytes:
    """The same, with the numbers a producer gives them."""
    numbers = [number << 1 for number in range(count)]
    encoded = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in numbers if n < 1 << 14]
    encoded += [bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14]) for n in numbers if n >= 1 << 14]
    return b"".join(bytes([2 * (5 + len(n))]) + b"\0\0" + n + b"\1\0\0" for n in encoded)


@pytest.fixture
def topic(broker: Besieged, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Make a topic of this test."""
    with broker.wire() as wire:

        def make(partitions: int = 1, **configs: str) -> str:
            name = request.node.name.replace("[", "-").replace("]", "")
            of = CreateTopicsRequest.Topic
            given = [of.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
            made = of(name=name, num_partitions=partitions, replication_factor=1, configs=given)
            assert wire.ask(CreateTopicsRequest(topics=[made], timeout_ms=60_000), 7).topics[0].error_code == 0
            return name

        yield make


@pytest.fixture
def wire(broker: Besieged) -> Iterator[Wire]:
    with broker.wire() as wire:
        yield wire


def cost(broker: Besieged, work: Callable[[], Any]) -> tuple[Any, float]:
    before = broker.measure().cpu_seconds
    return work(), broker.measure().cpu_seconds - before


def test_million_records_that_must_be_counted_anew(broker, wire, topic):
    name = topic()
    batch = tiny(MILLION)
    assert len(batch) < 1000
    answer, seconds = cost(broker, lambda: produce(wire, name, batch))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert seconds < 2
    assert produce(wire, name, tiny(1)).base_offset == MILLION
    (stored, *_) = iter_batches(bytes(fetch(wire, name, 0).records))
    assert [(found.offset, found.key, found.value) for found in stored.records()[-2:]] == [
        (999_998, None, b""),
        (999_999, None, b""),
    ]


@pytest.mark.parametrize("reason", ["key", "time"])
def test_million_records_that_are_refused(broker, wire, topic, reason):
    name = topic(cleanup_policy="compact") if reason == "key" else topic(message_timestamp_before_max_ms="1000")
    batch = changed(tiny(MILLION), (27, "q", OLD), (35, "q", OLD))
    answer, seconds = cost(broker, lambda: produce(wire, name, batch))
    assert answer.error_code == {"key": 87, "time": 32}[reason]
    assert [error.batch_index for error in answer.record_errors] == list(range(10))
    assert "1000000 of 1000000 records were refused" in answer.error_message
    assert seconds < 1.5


def test_partition_that_is_named_again_is_appended_once_and_the_last_counts(broker, wire, topic):
    name = topic(2)
    data = ProduceRequest.TopicData
    part = data.PartitionData
    batches = [memoryview(with_payload(LEAST * count, count=count)) for count in range(1, 6)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            data(name=name, partition_data=[part(index=0, records=batches[0]), part(index=1, records=batches[0])]),
            data(name=name, partition_data=[part(index=0, records=batch) for batch in batches[1:]]),
        ],
    )
    answered = wire.ask(request, 9).responses
    found = sorted((each.index, each.error_code, each.base_offset) for topic in answered for each in topic.partition_responses)
    assert found == [(0, 0, 0), (1, 0, 0)]
    assert ends(wire, name, 2) == [5, 1]


def ends(wire: Wire, name: str, partitions: int) -> list[int]:
    of = ListOffsetsRequest.Topic
    asked = [of.Partition(partition_index=number, timestamp=-1) for number in range(partitions)]
    return [
        found.offset for found in wire.ask(ListOffsetsRequest(topics=[of(name=name, partitions=asked)]), 7).topics[0].partitions
    ]


def test_request_that_unpacks_to_gigabytes(broker, wire, topic):
    """20 batches of 127 MB in 83 KB: what is beyond the limit of one request is refused as too large, and nothing is kept."""
    name = topic(20)
    data = ProduceRequest.TopicData
    huge = with_payload(zstd(bytes(A_HUNDRED_AND_TWENTY_SEVEN_MB)), ZSTD)
    parts = [data.PartitionData(index=number, records=memoryview(huge)) for number in range(20)]
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=name, partition_data=parts)])
    before = broker.measure().memory
    answered, seconds = cost(broker, lambda: wire.ask(request, 9).responses[0].partition_responses)
    assert {part.error_code for part in answered} == {TOO_LARGE}
    assert "milepost.produce.max.decompressed.bytes is 33554432" in answered[0].error_message
    assert broker.measure().memory < before + (64 << 20)
    assert seconds < 1


@pytest.mark.parametrize("codec", ["gzip", "uncompressed"])
def test_records_for_a_topic_of_another_codec(broker, wire, topic, codec):
    name = topic(compression_type=codec, max_message_bytes="5000000")
    batch = with_payload(zstd(counted(300_000)), ZSTD, 300_000)
    answer, seconds = cost(broker, lambda: produce(wire, name, batch))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert seconds < 1.5
    asked = FetchRequest.Topic(topic=name, partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1 << 23)])
    fetched = wire.ask(FetchRequest(topics=[asked], min_bytes=1, max_bytes=1 << 24), 11).responses[0].partitions[0]
    (stored,) = iter_batches(bytes(fetched.records))
    assert isinstance(stored, RecordBatch)
    assert (stored.codec.name.lower(), stored.record_count) == ({"gzip": "gzip", "uncompressed": "none"}[codec], 300_000)
    assert stored.records()[-1].offset == 299_999
    assert stored.size > HEADER_SIZE


def test_time_in_a_batch_of_a_million_records(broker, wire, topic):
    name = topic()
    payload = LEAST * (MILLION - 1) + bytes.fromhex("0c 00 0a 00 01 00 00")  # the last is 5 ms later
    batch = changed(with_payload(zstd(payload), ZSTD, MILLION), (35, "q", NOW + 5))
    assert produce(wire, name, batch).error_code == 0
    of = ListOffsetsRequest.Topic

    def look(time: int) -> tuple[int, int]:
        asked = of(name=name, partitions=[of.Partition(partition_index=0, timestamp=time)])
        found = wire.ask(ListOffsetsRequest(topics=[asked]), 7).topics[0].partitions[0]
        return found.offset, found.timestamp

    found, seconds = cost(broker, lambda: [look(time) for time in (NOW, NOW + 1, -3)])
    assert found == [(0, NOW), (MILLION - 1, NOW + 5), (MILLION - 1, NOW + 5)]
    assert seconds < 2
