"""Requests encoded beforehand for the bare client, and where in their answers it has to look.

A produce frame is cut in two: a head with everything that differs from request to request (topic, partition, producer,
sequence, CRC) and a rest that does not (the records of the last batch, and the tags behind them).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from milepost import Record, build_batch
from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from milepost.record.batch import CRC_COVERS_FROM, HEADER_SIZE

# Versions that name topics, and those that have topic ids instead.
PRODUCE, PRODUCE_VERSIONS = 0, (9, 13)
FETCH, FETCH_VERSIONS = 1, (11, 17)
FLEXIBLE_FETCH = 12
NO_TOPIC_ID = bytes(16)
UNKNOWN_TAG = 99
NO_SESSION, OPENING = -1, 0
CLIENT = "bench"
# What is looked for in an encoded frame, to learn where such a field stands.
SIGN, SESSION_SIGN = 0x0123456789ABCDEF, 0x13579BDF
TEN_BYTES = b"0123456789"
WORDS = ["order", "user", "price", "event", "click", "session", "item", "shipped", "returned", "true", "null", "2024-05-17"]


@cache
def values(count: int, size: int) -> tuple[bytes, ...]:
    """Values as applications send them: text of words and numbers, that a codec makes two to three times smaller."""
    rng = random.Random(1)
    texts = []
    for _ in range(count):
        text = ""
        while len(text) < size:
            text += f'"{rng.choice(WORDS)}": {rng.randrange(100_000)}, '
        texts.append(text[:size].encode())
    return tuple(texts)


def batch_of(records: int, size: int, codec: Codec = Codec.NONE) -> bytes:
    texts = values(64, size)
    listed = [Record(index, 1_700_000_000_000 + index, None, texts[index % 64]) for index in range(records)]
    return build_batch(listed, base_offset=0, codec=codec)


def records_that_fit(batch_size: int, record_size: int) -> int:
    """How many records of a size a client puts into a batch of about `batch_size` bytes."""
    return max(1, (batch_size - HEADER_SIZE) // (record_size + 9))


@dataclass(frozen=True)
class Target:
    """Where one connection sends to; a producer id numbers its batches. With a topic id the newest version is used, as by Java."""

    topic: str
    partition: int = 0
    producer_id: int = -1
    partitions: int = 1
    """In every request, from `partition` on, a batch for each."""
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True)
class ProduceFrames:
    heads: bytes
    head_size: int
    rest: bytes
    error_at: int
    batch_size: int
    record_count: int


def produce_frames(
    batch: bytes, targets: Sequence[Target], numbered: int = 1, first_batch: int = 0, *, has_unknown_tag: bool = False
) -> ProduceFrames:
    """For each target one head, or `numbered` heads with rising sequences. All topic names must have one length.

    `has_unknown_tag`: each request ends with a tagged field that no version knows. A broker has to skip it, and nothing that is made for
    the requests that clients usually send has a reason to expect one.
    """
    records = memoryview(batch)[HEADER_SIZE:]
    count = struct.unpack_from(">i", batch, 57)[0]
    heads = []
    rest = b""
    for target in targets:
        frame = _produce(target, batch)
        if has_unknown_tag:
            frame = _with_unknown_tag(frame)
        places = _places(frame, batch, target.partitions)
        end = places[-1] + HEADER_SIZE
        rest = frame[end:]
        for number in range(first_batch, first_batch + numbered):
            head = bytearray(frame[:end])
            if target.producer_id >= 0:
                for place in places:
                    struct.pack_into(">qhi", head, place + 43, target.producer_id, 0, number * count % 2**31)
                    covered = memoryview(head)[place + CRC_COVERS_FROM : place + HEADER_SIZE]
                    struct.pack_into(">I", head, place + 17, crc32c(records, crc32c(covered)))
            heads.append(bytes(head))
    assert len({len(head) for head in heads}) == 1, "topics of several lengths"
    return ProduceFrames(b"".join(heads), len(heads[0]), rest, _error_at(targets[0]), len(batch), count * targets[0].partitions)


def _produce(target: Target, batch: bytes) -> bytes:
    numbers = range(target.partition, target.partition + target.partitions)
    parts = [ProduceRequest.TopicData.PartitionData(index=number, records=memoryview(batch)) for number in numbers]
    topic = ProduceRequest.TopicData(name=target.topic, topic_id=target.topic_id, partition_data=parts)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    return frames.encode_request(PRODUCE, _version(PRODUCE_VERSIONS, target), 1, CLIENT, request)


def _with_unknown_tag(frame: bytes) -> bytes:
    """In place of the empty set of tags at the end of the body: one tag, its number, its size, its byte."""
    longer = frame[4:-1] + bytes([1, UNKNOWN_TAG, 1, 0])
    return struct.pack(">i", len(longer)) + longer


def _places(frame: bytes, batch: bytes, count: int) -> list[int]:
    places: list[int] = []
    for _ in range(count):
        places.append(frame.index(batch, places[-1] + len(batch) if places else 0))
    return places


def _error_at(target: Target) -> int:
    """Of the first partition in a request."""
    answer = ProduceResponse.Response.PartitionResponse(index=target.partition, error_code=0, base_offset=SIGN)
    topic = ProduceResponse.Response(name=target.topic, topic_id=target.topic_id, partition_responses=[answer])
    version = _version(PRODUCE_VERSIONS, target)
    encoded = frames.encode_response(PRODUCE, version, 1, ProduceResponse(responses=[topic]))
    return encoded.index(SIGN.to_bytes(8, "big")) - 2 - 4


def _version(versions: tuple[int, int], target: Target) -> int:
    return versions[target.topic_id != NO_TOPIC_ID]


@dataclass(frozen=True)
class FetchFrames:
    """Places are counted as `bare.c` does: in a request from the start of the frame, in an answer from behind its size."""

    frames: bytes
    frame_size: int
    offset_at: int
    records_at: int
    has_varint: bool
    session_at: int
    session_answered_at: int


def fetch_frames(targets: Sequence[Target], max_bytes: int, *, in_session: bool = False) -> FetchFrames:
    """One request for each target, which fetches from offset 0 on; in a session it is the one that opens it."""
    offset, session = SIGN.to_bytes(8, "big"), SESSION_SIGN.to_bytes(4, "big")
    requests = [_fetch(target, max_bytes, in_session) for target in targets]
    version = _version(FETCH_VERSIONS, targets[0])
    answer = _fetched(targets[0], version)
    is_flexible = version >= FLEXIBLE_FETCH
    return FetchFrames(
        b"".join(requests).replace(offset, bytes(8)).replace(session, bytes(4)),
        frame_size=len(requests[0]),
        offset_at=requests[0].index(offset),
        records_at=answer.index(TEN_BYTES) - (1 if is_flexible else 4) - 4,
        has_varint=is_flexible,
        session_at=requests[0].index(session) if in_session else -1,
        session_answered_at=answer.index(session) - 4,
    )


def _fetch(target: Target, max_bytes: int, in_session: bool) -> bytes:
    part = FetchRequest.Topic.Partition(partition=target.partition, fetch_offset=SIGN, partition_max_bytes=max_bytes)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=SESSION_SIGN if in_session else 0,
        session_epoch=OPENING if in_session else NO_SESSION,
        topics=[FetchRequest.Topic(topic=target.topic, topic_id=target.topic_id, partitions=[part])],
    )
    return frames.encode_request(FETCH, _version(FETCH_VERSIONS, target), 1, CLIENT, request)


def _fetched(target: Target, version: int) -> bytes:
    part = FetchResponse.Response.Partition(
        partition_index=target.partition, high_watermark=1, last_stable_offset=1, aborted_transactions=None, records=TEN_BYTES
    )
    topic = FetchResponse.Response(topic=target.topic, topic_id=target.topic_id, partitions=[part])
    return frames.encode_response(FETCH, version, 1, FetchResponse(session_id=SESSION_SIGN, responses=[topic]))
