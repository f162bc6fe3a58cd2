"""Bytes as a network cuts them, and answers as they come back."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import MalformedMessage
from milepost.protocol import frames
from milepost.protocol.connection import DEFAULT_MAX_SIZE, Answer, ClientConnection, FrameReader
from milepost.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)

PRODUCE, METADATA, HEARTBEAT, API_VERSIONS = 0, 3, 12, 18


def sized(*contents: bytes) -> bytes:
    return b"".join(len(content).to_bytes(4, "big") + content for content in contents)


@given(
    contents=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 300), max_size=10),
)
def test_frames_come_out_whole_and_in_order_however_the_bytes_were_cut(contents, cuts):
    stream = sized(*contents)
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    reader = FrameReader()
    found, start = [], 0
    for end in ends:
        found += [bytes(frame) for frame in reader.feed(stream[start:end])]
        start = end
    assert found == contents
    assert (len(reader._partial), reader.missing) == (0, 0)


def test_pipelined_requests_come_out_of_one_feed_as_views_of_it():
    data = bytearray(sized(b"one", b"two") + b"\0\0")
    reader = FrameReader()
    first, second = reader.feed(data)
    data[4] = ord("X")
    assert (bytes(first), bytes(second)) == (b"Xne", b"two")
    assert len(reader._partial) == 2


def test_frame_in_pieces_is_a_buffer_of_its_own():
    reader = FrameReader()
    data = bytearray(b"\0\0\0\4ab")
    assert reader.feed(data) == []
    assert (len(reader._partial), reader.missing) == (2, 2)
    data[4] = ord("X")
    (frame,) = reader.feed(b"cd")
    assert bytes(frame) == b"abcd"


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("00000000", "a frame of 0 bytes is announced, 1 to 1000 are allowed"),
        ("ffffffff", "a frame of -1 bytes is announced, 1 to 1000 are allowed"),
        ("80000000", "a frame of -2147483648 bytes is announced, 1 to 1000 are allowed"),
        ("7fffffff", "a frame of 2147483647 bytes is announced, 1 to 1000 are allowed"),
        ("000003e9", "a frame of 1001 bytes is announced, 1 to 1000 are allowed"),
        (
            "16030100",
            "a frame of 369295616 bytes is announced, 1 to 1000 are allowed; this looks like a TLS client on a plaintext listener",
        ),
        ("47455420", "a frame of 1195725856 bytes is announced, 1 to 1000 are allowed; this looks like an HTTP client"),
        ("5353482d", "a frame of 1397966893 bytes is announced, 1 to 1000 are allowed; this looks like an SSH client"),
    ],
)
def test_size_out_of_bounds(start, sentence):
    for pieces in ([bytes.fromhex(start)], [bytes.fromhex(start)[:1], bytes.fromhex(start)[1:]]):
        reader = FrameReader(max_size=1000)
        with pytest.raises(MalformedMessage) as caught:
            for piece in pieces:
                reader.feed(piece)
        assert str(caught.value) == sentence


def test_frame_of_exactly_the_limit_passes():
    assert [len(frame) for frame in FrameReader(max_size=1000).feed(sized(bytes(1000)))] == [1000]


def test_limit_may_rise_between_frames():
    reader = FrameReader(max_size=10)
    assert len(reader.feed(sized(bytes(10)))) == 1
    reader.max_size = 20
    assert len(reader.feed(sized(bytes(20)))) == 1


def test_thousand_peers_that_promise_the_maximum_and_send_nothing_cost_next_to_nothing():
    tracemalloc.start()
    try:
        readers = [FrameReader() for _ in range(1000)]
        for reader in readers:
            reader.feed(DEFAULT_MAX_SIZE.to_bytes(4, "big"))
            reader.feed(b"abcd")
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert readers[0].missing == DEFAULT_MAX_SIZE - 4
    assert used < 1_000_000


def test_byte_by_byte_is_linear():
    reader = FrameReader()
    found = []
    for byte in sized(bytes(20_000)):
        found += reader.feed(bytes([byte]))
    assert [len(frame) for frame in found] == [20_000]


def test_answers_find_their_requests():
    client = ClientConnection("me")
    first, frame = client.send(METADATA, 12, MetadataRequest(topics=None))
    assert frame == frames.encode_request(METADATA, 12, 0, "me", MetadataRequest(topics=None))
    second, _ = client.send(HEARTBEAT, 3, HeartbeatRequest(group_id="g"))
    assert (first, second, client.in_flight) == (0, 1, 2)
    stream = frames.encode_response(METADATA, 12, 0, MetadataResponse(controller_id=1))
    stream += frames.encode_response(HEARTBEAT, 3, 1, HeartbeatResponse(error_code=27))
    assert client.receive(stream[:20]) == []
    assert client.receive(stream[20:]) == [
        Answer(0, METADATA, 12, MetadataResponse(controller_id=1)),
        Answer(1, HEARTBEAT, 3, HeartbeatResponse(error_code=27)),
    ]
    assert client.in_flight == 0


def test_request_without_an_answer_is_not_waited_for():
    client = ClientConnection()
    client.send(PRODUCE, 9, ProduceRequest(acks=0), answered=False)
    correlation_id, _ = client.send(HEARTBEAT, 4, HeartbeatRequest())
    assert (correlation_id, client.in_flight) == (1, 1)


def test_request_that_cannot_be_written_takes_no_number():
    client = ClientConnection()
    with pytest.raises(ValueError, match="group_id"):
        client.send(HEARTBEAT, 4, HeartbeatRequest(group_id=None))
    assert client.send(HEARTBEAT, 4, HeartbeatRequest())[0] == 0


def test_correlation_ids_begin_again_after_the_last():
    client = ClientConnection()
    client._next_correlation_id = 2**31 - 1
    assert [client.send(HEARTBEAT, 4, HeartbeatRequest())[0] for _ in range(2)] == [2**31 - 1, 0]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            frames.encode_response(HEARTBEAT, 4, 5, HeartbeatResponse()),
            "an answer with correlation id 5 came, the oldest open request has 0",
        ),
        (sized(b"abc"), "an answer with 3 bytes came, the oldest open request has 0"),
        (frames.encode_response(HEARTBEAT, 4, 0, HeartbeatResponse())[:-1] + b"\x05", "Heartbeat response 4: tags says 5"),
    ],
)
def test_answer_that_does_not_fit(answer, sentence):
    client = ClientConnection()
    client.send(HEARTBEAT, 4, HeartbeatRequest())
    with pytest.raises(MalformedMessage) as caught:
        client.receive(answer)
    assert str(caught.value).startswith(sentence)


def test_answer_nobody_asked_for():
    with pytest.raises(MalformedMessage, match="no request is open"):
        ClientConnection().receive(sized(b"abcdef"))


def test_api_versions_that_the_broker_does_not_know_is_answered_in_version_0():
    client = ClientConnection()
    client.send(API_VERSIONS, 4, ApiVersionsRequest())
    own = ApiVersionsResponse.ApiKey(api_key=18, max_version=3)
    refused = ApiVersionsResponse(error_code=35, api_keys=[own])
    (answer,) = client.receive(frames.encode_response(API_VERSIONS, 0, 0, refused))
    assert answer == Answer(0, API_VERSIONS, 0, refused)
