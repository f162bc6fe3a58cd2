"""Frames that real clients and brokers sent: read as Kafka reads them, and written back to the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost.protocol import frames, generated
from milepost.protocol.apis import API_VERSIONS, BY_KEY, CONTROLLED_SHUTDOWN
from milepost.protocol.headers import read_request_header, read_response_header
from tests.golden_wire_fixture import WireMessage, all_messages, api_key, examples, members, messages, recordings
from tests.protocol.kafka_json import as_kafka_json

RECORDINGS = [(archive, path) for archive in ("clients", "interbroker") for path in recordings(archive)]


def decode(message: WireMessage) -> tuple[Any, int]:
    decoder = generated.request_decoder if message.kind == "request" else generated.response_decoder
    return decoder(message.api_key, message.body_version)(message.frame, message.body_start)


def expectation(message: WireMessage) -> dict[str, Any]:
    # Kafka 3.9 calls key 74 ListClientMetricsResources; what it lists got another name with the API.
    if message.api_key == 74 and "clientMetricsResources" in message.expected:
        return {
            ("configResources" if name == "clientMetricsResources" else name): value for name, value in message.expected.items()
        }
    return message.expected


@pytest.mark.parametrize(("archive", "path"), RECORDINGS, ids=[path for _, path in RECORDINGS])
def test_recorded_body_is_read_as_kafka_reads_it_and_written_to_the_same_bytes(archive, path):
    found = list(messages(archive, path))
    assert found
    for message in found:
        body, end = decode(message)
        assert end == len(message.frame)
        assert as_kafka_json(body, message.body_version) == expectation(message)
        encoder = generated.request_encoder if message.kind == "request" else generated.response_encoder
        pieces: list[Any] = []
        encoder(message.api_key, message.body_version)(body, pieces.append)
        assert b"".join(pieces) == message.frame[message.body_start :]


@pytest.mark.parametrize(("archive", "path"), RECORDINGS, ids=[path for _, path in RECORDINGS])
def test_recorded_header_is_of_the_version_and_length_kafka_says(archive, path):
    for message in messages(archive, path):
        api = BY_KEY[message.api_key]
        if message.kind == "request":
            assert api.request_header_version(message.api_version) == message.header_version
            header = read_request_header(message.frame)
            assert (header.api_key, header.api_version) == (message.api_key, message.api_version)
            assert header.body == message.body_start
        else:
            assert api.response_header_version(message.api_version) == message.header_version
            assert read_response_header(message.frame, message.api_key, message.body_version)[1] == message.body_start


@pytest.mark.parametrize("path", recordings("clients"))
def test_whole_frame_is_written_as_it_came(path):
    for example in examples("clients", path):
        if example["requestJson"] is None:
            continue
        frame = bytes.fromhex(example["requestHex"])
        header = read_request_header(frame)
        assert header.client_id == example["clientId"]
        body, left = frames.decode_request(header, frame)
        assert left == 0
        sent = len(frame).to_bytes(4, "big") + frame
        assert frames.encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, body) == sent
        if example["responseHex"]:
            answer = bytes.fromhex(example["responseHex"])
            correlation_id, body = frames.decode_response(header.api_key, header.api_version, answer)
            assert correlation_id == header.correlation_id
            sent = len(answer).to_bytes(4, "big") + answer
            assert frames.encode_response(header.api_key, header.api_version, correlation_id, body) == sent
            pieces = frames.gather_response(header.api_key, header.api_version, correlation_id, body)
            assert b"".join(pieces) == sent


def test_recordings_cover_the_pairs_they_should():
    pairs = {(message.api_key, message.api_version) for message in all_messages()}
    clients = {(api_key(path), example["apiVersion"]) for path in recordings("clients") for example in examples("clients", path)}
    assert len(clients) == 199
    assert len(pairs | clients) == 236
    assert sum(1 for _ in all_messages()) == 2013


def test_unknown_version_of_api_versions_is_read_as_far_as_its_client_id():
    asked = [example for example in examples("clients", "clients/18-ApiVersions.json") if example["apiVersion"] == 99]
    assert len(asked) == 2
    for example in asked:
        header = read_request_header(bytes.fromhex(example["requestHex"]))
        assert (header.api_key, header.api_version, header.correlation_id) == (API_VERSIONS, 99, 7)
        assert header.client_id == "kafka-classes"
        correlation_id, body = frames.decode_response(API_VERSIONS, 0, bytes.fromhex(example["responseHex"]))
        assert correlation_id == 7
        assert as_kafka_json(body, 0) == json.loads(
            '{"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}'
        )


def test_controlled_shutdown_0_has_no_client_id():
    path = "interbroker/made/07-ControlledShutdown.json"
    (message,) = [m for m in messages("interbroker", path) if m.kind == "request" and m.api_version == 0]
    header = read_request_header(message.frame)
    assert (header.api_key, header.api_version, header.client_id, header.body) == (CONTROLLED_SHUTDOWN, 0, None, 8)


def test_other_archives_are_whole():
    assert len(members("clients_order")) == 13
    assert len(members("znodes")) == 27
