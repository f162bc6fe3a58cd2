"""Have brokers take one of their ways in, and ask them in pieces that lie together: several requests in one write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from milepost.broker import dispatch
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.conftest import twin

WAYS = ("compiled", "pure", "handler")
NOW = 1_700_000_000_000
PRODUCE = 0
Data = ProduceRequest.TopicData


def take_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "handler":
        monkeypatch.setattr(dispatch, "ProduceFrames", lambda *given: None)
    else:
        monkeypatch.setattr(dispatch, "ProduceFrames", twin("milepost.broker.produce.frames", way).ProduceFrames)


def batch(*values: bytes, **settings: Any) -> bytes:
    return build_batch([Record(i, NOW + i, b"k", value) for i, value in enumerate(values)], base_offset=0, **settings)


def request_of(
    topics: Mapping[str | bytes, Sequence[tuple[int, bytes | None]]]
    | Sequence[tuple[str | bytes, Sequence[tuple[int, bytes | None]]]],
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 60_000,
) -> ProduceRequest:
    """By the name or the id of each topic, its partitions and their batches."""
    items = topics.items() if isinstance(topics, Mapping) else topics
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            Data(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partition_data=[Data.PartitionData(index=index, records=data) for index, data in parts],
            )
            for topic, parts in items
        ],
    )


def send(wire: Wire, requests: Sequence[ProduceRequest], version: int = 9) -> None:
    """In one piece, so that they lie together."""
    wire.socket.sendall(
        b"".join(frames.encode_request(PRODUCE, version, 70 + number, "c", request) for number, request in enumerate(requests))
    )


def received(wire: Wire, version: int = 9) -> list[tuple[int, int]]:
    """Error code and base offset of each partition in the next answer."""
    _, response = frames.decode_response(PRODUCE, version, wire.read_frame())
    return [(part.error_code, part.base_offset) for topic in response.responses for part in topic.partition_responses]


def produced(wire: Wire, requests: Sequence[ProduceRequest], version: int = 9) -> list[list[tuple[int, int]]]:
    send(wire, requests, version)
    return [received(wire, version) for _ in requests]


def stored(wire: Wire, topic: str, partition: int = 0) -> list[bytes | None]:
    part = FetchRequest.Topic.Partition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic=topic, partitions=[part])]
    answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11).responses[0].partitions[0]
    batches = [each for each in iter_batches(bytes(answer.records)) if not each.is_control]
    return [record.value for each in batches for record in each.records()]
