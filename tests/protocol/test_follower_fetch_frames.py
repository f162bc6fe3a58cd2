"""Frames of fetches that repeat are those that the schemas give."""

from __future__ import annotations

import pytest

from milepost.protocol import frames
from milepost.protocol.follower_fetch_frames import KEY, SINCE, FetchAnswerFrame, FetchFrame, RepeatedAnswer, RepeatedFetch
from milepost.protocol.messages import FetchRequest, FetchResponse

TOPIC_ID = bytes(range(16))
VERSIONS = range(SINCE, 18)


def request(version, epoch=7, offset=2**40 + 3):
    part = FetchRequest.Topic.Partition(
        partition=5, current_leader_epoch=2, fetch_offset=offset, last_fetched_epoch=1, log_start_offset=9, partition_max_bytes=99
    )
    topic = FetchRequest.Topic(
        topic="t" if version < 13 else "", topic_id=TOPIC_ID if version >= 13 else bytes(16), partitions=[part]
    )
    body = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1000, session_id=77, session_epoch=epoch, topics=[topic])
    if version >= 15:
        body.replica_state = FetchRequest.ReplicaState(replica_id=3, replica_epoch=44)
    else:
        body.replica_id = 3
    return body


def response(version, numbers=(8, 7, 6), records=b"some batches", **fields):
    part = FetchResponse.Response.Partition(partition_index=5, aborted_transactions=None, records=records, **fields)
    part.high_watermark, part.last_stable_offset, part.log_start_offset = numbers
    topic = FetchResponse.Response(
        topic="t" if version < 13 else "", topic_id=TOPIC_ID if version >= 13 else bytes(16), partitions=[part]
    )
    return FetchResponse(session_id=77, responses=[topic])


def answer_frame(version):
    topic = response(version).responses[0]
    return FetchAnswerFrame(version, 77, topic.topic, topic.topic_id, 5)


@pytest.mark.parametrize("version", VERSIONS)
def test_request_is_written_and_read(version):
    frame = FetchFrame(version, "broker-3-fetcher-0", request(version, epoch=1, offset=0))
    expected = frames.encode_request(KEY, version, 12345, "broker-3-fetcher-0", request(version))
    assert frame.write(12345, 7, 2**40 + 3) == expected
    assert frame.read(memoryview(expected)[4:]) == (7, 2**40 + 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_request_that_is_another_is_not_read(version):
    frame = FetchFrame(version, "broker-3-fetcher-0", request(version))
    other = request(version)
    other.topics[0].partitions[0].current_leader_epoch = 3
    for body, client_id in ((other, "broker-3-fetcher-0"), (request(version), "broker-4-fetcher-0")):
        assert frame.read(memoryview(frames.encode_request(KEY, version, 1, client_id, body))[4:]) is None
    whole = memoryview(frames.encode_request(KEY, version, 1, "broker-3-fetcher-0", request(version)))[4:]
    assert all(frame.read(whole[:size]) is None for size in range(len(whole)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 126, 127, 128, 16_383, 16_384, 70_000])
def test_answer_is_written_and_read(version, size):
    records = bytes(range(256)) * 274
    expected = frames.encode_response(KEY, version, 99, response(version, records=records[:size]))
    frame = answer_frame(version)
    assert frame.write((99).to_bytes(4, "big"), (8, 7, 6), records[:size]) == (expected,)
    assert b"".join(map(bytes, frame.write((99).to_bytes(4, "big"), (8, 7, 6), memoryview(records)[:size]))) == expected
    assert frame.read(memoryview(expected)[4:]) == RepeatedAnswer(8, 7, 6, memoryview(records[:size]))


@pytest.mark.parametrize("version", VERSIONS)
def test_answer_that_is_another_is_left_to_the_schema(version):
    repeated = RepeatedFetch(version, request(version))
    others = [
        response(version, error_code=6),
        response(version, records=b""),
        FetchResponse(error_code=70),
        FetchResponse(session_id=77, responses=[]),
        FetchResponse(session_id=77, responses=response(version).responses * 2),
    ]
    for other in others:
        encoded = frames.encode_response(KEY, version, 1, other)[4:]
        assert repeated.decode(memoryview(encoded)) == frames.decode_response(KEY, version, encoded)[1]
    whole = frames.encode_response(KEY, version, 1, response(version))[4:]
    frame = answer_frame(version)
    assert all(frame.read(memoryview(whole)[:size]) is None for size in range(4, len(whole)))
