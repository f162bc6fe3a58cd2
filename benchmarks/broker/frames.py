"""Requests encoded beforehand for the bare client, and where in their answers it has to look.

A produce frame is cut in two: a head with everything that differs from request to request (topic, partition, producer,
sequence, CRC) and a rest that does not (the records, and the empty tags behind them).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from milepost import Record, build_batch
from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from milepost.record.batch import CRC_COVERS_FROM, HEADER_SIZE

PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 11
NO_TAGS = b"\0\0\0"
CLIENT = "bench"
SIGN = 0x0123456789ABCDEF
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
    """Where one connection sends to; a producer id numbers its batches."""

    topic: str
    partition: int = 0
    producer_id: int = -1


@dataclass(frozen=True)
class ProduceFrames:
    heads: bytes
    head_size: int
    rest: bytes
    error_at: int
    batch_size: int
    record_count: int


def produce_frames(batch: bytes, targets: Sequence[Target], numbered: int = 1, first_batch: int = 0) -> ProduceFrames:
    """For each target one head, or `numbered` heads with rising sequences. All topic names must have one length."""
    records = memoryview(batch)[HEADER_SIZE:]
    count = struct.unpack_from(">i", batch, 57)[0]
    heads = []
    for target in targets:
        before = _before_records(target, len(batch))
        for number in range(first_batch, first_batch + numbered):
            header = bytearray(batch[:HEADER_SIZE])
            if target.producer_id >= 0:
                struct.pack_into(">qhi", header, 43, target.producer_id, 0, number * count % 2**31)
                struct.pack_into(">I", header, 17, crc32c(records, crc32c(memoryview(header)[CRC_COVERS_FROM:])))
            heads.append(before + header)
    rest = bytes(records) + NO_TAGS
    assert len({len(head) for head in heads}) == 1, "topics of several lengths"
    return ProduceFrames(b"".join(heads), len(heads[0]), rest, _error_at(targets[0]), len(batch), count)


def _before_records(target: Target, size: int) -> bytes:
    part = ProduceRequest.TopicData.PartitionData(index=target.partition, records=memoryview(bytes(size)))
    topic = ProduceRequest.TopicData(name=target.topic, partition_data=[part])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    frame = frames.encode_request(PRODUCE, PRODUCE_VERSION, 1, CLIENT, request)
    return frame[: len(frame) - len(NO_TAGS) - size]


def _error_at(target: Target) -> int:
    answer = ProduceResponse.Response.PartitionResponse(index=target.partition, error_code=0, base_offset=SIGN)
    response = ProduceResponse(responses=[ProduceResponse.Response(name=target.topic, partition_responses=[answer])])
    encoded = frames.encode_response(PRODUCE, PRODUCE_VERSION, 1, response)
    return encoded.index(SIGN.to_bytes(8, "big")) - 2 - 4


@dataclass(frozen=True)
class FetchFrames:
    frames: bytes
    frame_size: int
    offset_at: int
    records_at: int


def fetch_frames(targets: Iterable[Target], max_bytes: int) -> FetchFrames:
    encoded = [_fetch(target, max_bytes) for target in targets]
    return FetchFrames(
        b"".join(encoded), len(encoded[0]), encoded[0].index(SIGN.to_bytes(8, "big")), _records_at(next(iter(targets)))
    )


def _fetch(target: Target, max_bytes: int) -> bytes:
    part = FetchRequest.Topic.Partition(partition=target.partition, fetch_offset=SIGN, partition_max_bytes=max_bytes)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[FetchRequest.Topic(topic=target.topic, partitions=[part])],
    )
    return frames.encode_request(FETCH, FETCH_VERSION, 1, CLIENT, request)


def _records_at(target: Target) -> int:
    part = FetchResponse.Response.Partition(
        partition_index=target.partition, high_watermark=1, last_stable_offset=1, aborted_transactions=None, records=b"0123456789"
    )
    response = FetchResponse(responses=[FetchResponse.Response(topic=target.topic, partitions=[part])])
    return frames.encode_response(FETCH, FETCH_VERSION, 1, response).index(b"0123456789") - 4 - 4
