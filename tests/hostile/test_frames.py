"""Frames and headers that are none: N-01 to N-03, N-05 to N-07, N-20."""

from __future__ import annotations

import struct
import time

import pytest

from milepost.broker.dispatch import served_apis
from milepost.broker.inter_broker import KEYS as FOR_BROKERS
from milepost.protocol import frames
from milepost.protocol.apis import BY_KEY
from milepost.protocol.messages import MetadataRequest
from tests.fuzz.driven_broker import DrivenBroker, Link
from tests.waiting import until

both_modes = pytest.mark.parametrize("broker", ["inline", "pooled"], indirect=True)
LIMIT = 104_857_600
METADATA = frames.encode_request(3, 12, 7, "hostile", MetadataRequest(topics=[]))


def request(key: int, version: int, client_id: bytes = b"\0\7hostile", body: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client_id + body


@both_modes
@pytest.mark.parametrize("size", [-1, -2, -(2**31), 0, LIMIT + 1, 2**31 - 1])
def test_size_out_of_bounds(broker, size):
    with broker.connect() as stranger:
        assert stranger.send_bytes(struct.pack(">i", size)).is_closed_by_the_broker


@both_modes
def test_requests_before_a_frame_that_is_none_are_answered(broker):
    with broker.connect() as stranger:
        stranger.send_bytes(METADATA * 3 + struct.pack(">i", -1))
        for _ in range(3):
            assert frames.decode_response(3, 12, stranger.read_frame())[0] == 7
        assert stranger.is_closed_by_the_broker


@pytest.mark.parametrize(
    "frame",
    [
        b"\0",
        bytes(7),
        struct.pack(">hhi", 3, 1, 7),
        request(3, 1, b"\xff\xfe"),
        request(3, 1, b"\x80\x00"),
        request(3, 1, b"\x7f\xff"),
        request(3, 1, b"\0\x05abcd"),
        request(3, 1, b"\0\2\xff\xfe"),
        request(3, 12, b"\0\1a"),
    ],
    ids=["1 byte", "7 bytes", "no client id", "-2", "-32768", "32767", "past the end", "not UTF-8", "no tags"],
)
def test_header_that_is_none(broker, frame):
    with broker.connect() as stranger:
        assert stranger.send_frame(frame).is_closed_by_the_broker


@pytest.mark.parametrize("client_id", [None, "", "x" * 32767, "a\nERROR forged line", "\x1b[2J\x00\u202e", "é中"])
def test_client_ids_that_are_odd_are_still_ids(broker, client_id):
    with broker.wire(client_id) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 12).brokers


def test_client_id_in_the_log(broker):
    """A line of the log is written by the broker alone: what a stranger calls himself does not end it."""
    forged = "a\nWARNING forged: all is well"
    for version in (-1, 999):
        with broker.connect(client_id=forged) as stranger:
            named = struct.pack(">h", len(forged)) + forged.encode()
            assert stranger.send_frame(request(3, version, named)).is_closed_by_the_broker
    assert "\nWARNING forged" not in broker.log


def test_every_unknown_key(tmp_path):
    """All 65,536 of them, without the sockets in between."""
    driven = DrivenBroker(tmp_path / "data")
    known = {*served_apis(), *FOR_BROKERS}
    try:
        for key in range(-(2**15), 2**15):
            if key not in known:
                link = Link(driven)
                frame = request(key, 0)
                link.send(struct.pack(">i", len(frame)) + frame)
                assert not link.is_open, key
                link.close()
        driven.judge_health()
        assert driven.broker.server.refusals.count == 2**16 - len(known)
    finally:
        driven.stop()


def test_every_key_in_versions_that_are_not_served(broker):
    for key, api in served_apis().items():
        low, high = BY_KEY[key].served
        for version in {-1, low - 1, high + 1, 32767, -32768}:
            with broker.connect() as stranger:
                stranger.send_frame(request(key, version))
                if key == 18:
                    correlation_id, answer = frames.decode_response(18, 0, stranger.read_frame())
                    assert (correlation_id, answer.error_code) == (7, 35)
                    assert {row.api_key for row in answer.api_keys} == set(served_apis())
                    # And on with a version that both know.
                    stranger.send_frame(request(18, 0))
                    assert frames.decode_response(18, 0, stranger.read_frame())[1].error_code == 0
                else:
                    assert stranger.is_closed_by_the_broker, (api.name, version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_0_to_2_is_listed_and_closed_on(broker, version):
    with broker.connect() as stranger:
        assert stranger.send_frame(request(0, version, body=bytes(40))).is_closed_by_the_broker


STRANGERS = [
    (bytes.fromhex("1603010200010001fc0303") + bytes(300), "a TLS client on a plaintext listener"),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "an HTTP client"),
    (b"SSH-2.0-OpenSSH_9.2p1\r\n", "an SSH client"),
]


@pytest.mark.parametrize(("start", "name"), STRANGERS, ids=["TLS", "HTTP", "SSH"])
def test_other_protocols(broker, start, name):
    time.sleep(1.0)  # the log takes one line a second of an address
    before = broker.log.count(name)
    with broker.connect() as stranger:
        assert stranger.send_bytes(start).is_closed_by_the_broker
    until(lambda: broker.log.count(name) > before)
    assert broker.log.count(name) == before + 1
