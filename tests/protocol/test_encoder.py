"""Messages that cannot be written, and random ones that come back as they were."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest

from milepost.errors import InvalidArgument, TooManyElements, UnsupportedVersion
from milepost.protocol import frames, generated
from milepost.protocol.apis import APIS, BY_KEY
from milepost.protocol.headers import read_request_header
from milepost.protocol.messages import (
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    ProduceRequest,
    ProduceResponse,
)
from tests.protocol.random_messages import random_message


def written(key: int, version: int, kind: str, body: Any) -> bytes:
    encoder = generated.request_encoder if kind == "request" else generated.response_encoder
    pieces: list[Any] = []
    encoder(key, version)(body, pieces.append)
    return b"".join(pieces)


@pytest.mark.parametrize("key", BY_KEY, ids=lambda key: BY_KEY[key].name)
def test_random_message_comes_back_as_it_was(key):
    rng = random.Random(key)
    for version in range(BY_KEY[key].known[0], BY_KEY[key].known[1] + 1):
        for kind in ("request", "response"):
            decoder = (generated.request_decoder if kind == "request" else generated.response_decoder)(key, version)
            for _ in range(5):
                message = random_message(key, version, kind, rng)
                data = written(key, version, kind, message)
                assert decoder(data, 0) == (message, len(data))


@pytest.mark.parametrize("key", BY_KEY, ids=lambda key: BY_KEY[key].name)
def test_piece_by_piece_is_the_same(key, monkeypatch):
    """A request is decoded, and a response written, as in one go."""
    monkeypatch.setattr(frames, "MOST_PIECES", 10)
    rng = random.Random(key)
    for version in range(BY_KEY[key].known[0], BY_KEY[key].known[1] + 1):
        request = random_message(key, version, "request", rng)
        frame = frames.encode_request(key, version, 7, "client", request)[4:]
        header = read_request_header(frame)
        assert frames.decode_short_request(header, frame) == outcome(frames.decoding_request(header, frame)) == request
        response = random_message(key, version, "response", rng)
        pieces = outcome(frames.gathering_response(key, version, 7, response))
        assert b"".join(pieces) == frames.encode_response(key, version, 7, response)


def test_large_messages_pause_every_few_elements_however_they_are_nested():
    topic = MetadataResponse.Topic(name="t", partitions=[MetadataResponse.Topic.Partition(replica_nodes=[0])] * 3)
    response = MetadataResponse(topics=[topic] * 1000)
    assert sum(1 for _ in frames.gathering_response(3, 12, 7, response)) == 4000 // 32
    group = OffsetFetchRequest.Group(group_id="g", topics=[OffsetFetchRequest.Group.Topic(name="t")] * 3)
    frame = frames.encode_request(9, 8, 7, "client", OffsetFetchRequest(groups=[group] * 1000))[4:]
    header = read_request_header(frame)
    assert sum(1 for _ in frames.decoding_request(header, frame)) == 4000 // 32
    with pytest.raises(TooManyElements):
        frames.decode_short_request(header, frame)


def outcome(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_message_of_defaults_can_be_written_in_every_version(api):
    for version in range(api.known[0], api.known[1] + 1):
        for kind in ("request", "response"):
            assert written(api.key, version, kind, generated.class_named(api.name + kind.capitalize())()) is not None


@pytest.mark.parametrize(
    ("key", "version", "kind", "body", "sentence"),
    [
        (
            12,
            4,
            "response",
            HeartbeatResponse(error_code=40_000),
            r"Heartbeat response 4: throttle_time_ms to error_code cannot be written",
        ),
        (
            12,
            4,
            "response",
            HeartbeatResponse(error_code=None),
            r"Heartbeat response 4: throttle_time_ms to error_code cannot be written",
        ),
        (12, 4, "request", HeartbeatRequest(group_id=None), r"Heartbeat request 4: group_id cannot be written \('NoneType'"),
        (
            12,
            3,
            "request",
            HeartbeatRequest(group_id="\ud800"),
            r"Heartbeat request 3: group_id cannot be written \(.*surrogates",
        ),
        (12, 3, "request", HeartbeatRequest(group_id="x" * 32_768), r"Heartbeat request 3: group_id cannot be written"),
        (
            12,
            4,
            "request",
            HeartbeatRequest(group_id="x" * 32_768),
            r"Heartbeat request 4: group_id is a string of 32768 bytes, 32767 are allowed",
        ),
        (3, 0, "request", MetadataRequest(topics=None), r"Metadata request 0: topics cannot be written"),
        (
            3,
            12,
            "response",
            MetadataResponse(topics=[MetadataResponse.Topic(name="t", partitions=[7])]),
            r"topics\[\]\.partitions\[\]\.\w+ .*cannot be written",
        ),
        (12, 4, "response", None, r"Heartbeat response 4: .* cannot be written"),
    ],
)
def test_value_that_does_not_fit_is_named_with_its_field(key, version, kind, body, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        written(key, version, kind, body)


def test_value_that_the_version_has_no_field_for_is_refused():
    leader = ProduceResponse.Response.PartitionResponse.CurrentLeader(leader_id=1, leader_epoch=5)
    partition = ProduceResponse.Response.PartitionResponse(current_leader=leader)
    answer = ProduceResponse(responses=[ProduceResponse.Response(name="t", partition_responses=[partition])])
    assert written(0, 10, "response", answer).hex().endswith("0000000100000005000000000000" + "00")
    with pytest.raises(
        UnsupportedVersion, match=r"^Produce response 9 cannot carry responses\[\]\.partition_responses\[\]\.current_leader"
    ):
        written(0, 9, "response", answer)
    with pytest.raises(UnsupportedVersion, match=r"OffsetFetch request 7 cannot carry groups, .*; leave it at its default"):
        written(9, 7, "request", OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g")]))


def test_value_that_kafka_calls_ignorable_is_dropped():
    assert written(12, 0, "response", HeartbeatResponse(throttle_time_ms=5, error_code=27)).hex() == "001b"


def test_struct_that_may_be_null():
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=1)
    assert written(75, 0, "request", DescribeTopicPartitionsRequest(cursor=cursor)).hex() == "01000007d0010274000000010000"
    assert written(75, 0, "request", DescribeTopicPartitionsRequest()).hex() == "01000007d0ff00"


def test_tagged_field_at_its_default_is_left_out():
    assert written(18, 3, "response", ApiVersionsResponse()).hex() == "0000010000000000"
    assert (
        written(18, 3, "response", ApiVersionsResponse(finalized_features_epoch=0)).hex()
        == "000001000000000101080000000000000000"
    )


def test_records_are_passed_on_as_they_are():
    class FileStretch:
        def __len__(self) -> int:
            return 70_000

    stretch = FileStretch()
    partition = FetchResponse.Response.Partition(records=stretch, aborted_transactions=None)
    answer = FetchResponse(responses=[FetchResponse.Response(topic="t", partitions=[partition])])
    pieces: list[Any] = []
    generated.response_encoder(1, 12)(answer, pieces.append)
    (place,) = [index for index, piece in enumerate(pieces) if piece is stretch]
    assert pieces[place - 1].hex() == "f1a204"  # 70,001


def test_null_records_and_empty_records_differ():
    def request(records: bytes | None) -> ProduceRequest:
        data = ProduceRequest.TopicData.PartitionData(records=records)
        return ProduceRequest(topic_data=[ProduceRequest.TopicData(name="t", partition_data=[data])])

    assert written(0, 9, "request", request(None)).hex() == "000000000000000202740200000000" + "00" + "000000"
    assert written(0, 9, "request", request(b"")).hex() == "000000000000000202740200000000" + "01" + "000000"
    assert written(0, 3, "request", request(None)).hex().endswith("00000000" + "ffffffff")


@pytest.mark.parametrize("version", [0, 1])
def test_sentence_for_people_is_cut_between_characters_where_it_gets_too_long(version):
    # IncrementalAlterConfigs 0 is not flexible, 1 is.
    def written(text: str | None) -> str | None:
        row = IncrementalAlterConfigsResponse.Response(error_code=40, error_message=text, resource_type=2, resource_name="t")
        frame = frames.encode_response(44, version, 1, IncrementalAlterConfigsResponse(responses=[row]))
        return frames.decode_response(44, version, frame[4:])[1].responses[0].error_message

    assert written("x" * 1000) == "x" * 1000
    assert written("x" * 1001) == "x" * 997 + "..."
    assert written("é" * 40_000) == "é" * 498 + "..."
    assert written(None) is None
    assert written("") == ""
