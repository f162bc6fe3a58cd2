"""One connection: which version is spoken, and what becomes of a broker that is silent, gone, slow or hostile (reliability N-43)."""

from __future__ import annotations

import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.errors import BrokerUnavailable, MalformedMessage, RequestFailed, UnsupportedVersion
from milepost.protocol.messages import ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse
from tests.client.fake_broker import ALL_VERSIONS, CLOSE, SILENCE, FakeBroker
from tests.ports import held_port
from tests.waiting import PATIENCE


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    broker = FakeBroker(Heartbeat=lambda version, request: HeartbeatResponse(error_code=27))
    yield broker
    broker.close()


def test_request_goes_out_in_the_newest_version_that_both_know(fake):
    fake.versions = {"ApiVersions": (0, 3), "Heartbeat": (1, 3)}
    with Connection(fake.address) as connection:
        assert connection.ask(HeartbeatRequest(group_id="g")).error_code == 27
    assert [(name, version) for name, version, _ in fake.asked] == [("Heartbeat", 3)]


def test_broker_from_the_future_is_asked_in_the_newest_version_we_know(fake):
    fake.versions = {"ApiVersions": (0, 9), "Heartbeat": (2, 99)}
    with Connection(fake.address) as connection:
        connection.ask(HeartbeatRequest())
    assert fake.asked[0][1] == 4


def test_version_can_be_bounded_from_above(fake):
    with Connection(fake.address) as connection:
        connection.ask(HeartbeatRequest(), highest=1)
    assert fake.asked[0][1] == 1


def test_api_that_the_broker_does_not_serve_is_named(fake):
    fake.versions = {"ApiVersions": (0, 4)}
    with (
        Connection(fake.address) as connection,
        pytest.raises(UnsupportedVersion, match=f"{fake.address} does not serve Heartbeat; it lists 1 APIs") as caught,
    ):
        connection.ask(HeartbeatRequest())
    assert caught.value.exit_code == 4


def test_no_version_in_common_says_both_ranges(fake):
    fake.versions = {**ALL_VERSIONS, "Heartbeat": (7, 9)}
    with (
        Connection(fake.address) as connection,
        pytest.raises(UnsupportedVersion, match="speaks Heartbeat 7 to 9, this client 0 to 4"),
    ):
        connection.ask(HeartbeatRequest())


def test_broker_that_knows_only_an_older_apiversions_is_asked_again():
    versions: list[int] = []

    def answer(version: int, request: object) -> object:
        versions.append(version)
        if version > 2:
            # Kafka before 2.4: version 0 whatever was asked, correlation id 0, error 35 and its own range.
            return bytes.fromhex("00000010 00000000 0023 00000001 0012 0000 0002".replace(" ", ""))
        return ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiKey(api_key=12, min_version=0, max_version=1)])

    fake = FakeBroker(ApiVersions=answer)
    with Connection(fake.address) as connection:
        assert connection.versions == {12: (0, 1)}
    assert versions == [3, 2]
    fake.close()


def test_broker_that_refuses_apiversions_is_an_error_with_its_code():
    fake = FakeBroker(ApiVersions=lambda version, request: ApiVersionsResponse(error_code=42))
    with pytest.raises(RequestFailed, match=r"answers ApiVersions with INVALID_REQUEST \(42\)"):
        Connection(fake.address)
    fake.close()


def test_several_open_requests_are_answered_in_order(fake):
    codes = iter([1, 2, 3])
    fake.handlers["Heartbeat"] = lambda version, request: HeartbeatResponse(error_code=next(codes))
    with Connection(fake.address) as connection:
        for _ in range(3):
            connection.send(HeartbeatRequest())
        assert [connection.receive().error_code for _ in range(3)] == [1, 2, 3]


# Nobody there, or nobody answering.


def test_nobody_listens_and_the_address_is_named():
    with (
        held_port() as port,
        pytest.raises(BrokerUnavailable, match=f"^no broker answers at 127.0.0.1:{port}: connection refused$") as caught,
    ):
        Connection(Address("127.0.0.1", port))
    assert caught.value.exit_code == 4


def test_host_that_has_no_address():
    with pytest.raises(BrokerUnavailable, match=r"no broker answers at no-such-host\.invalid:9092"):
        Connection(Address("no-such-host.invalid", 9092))


@pytest.mark.parametrize(
    ("host", "port"), [("a" * 70, 1), ("a..b", 1), ("\udcff", 1), ("a\0b", 1), ("127.0.0.1", 70000), ("127.0.0.1", -1)]
)
def test_address_that_a_broker_made_up_is_one_sentence_too(host, port):
    with pytest.raises(BrokerUnavailable):
        Connection(Address(host, port))


def test_broker_that_closes_instead_of_answering(fake):
    fake.handlers["Heartbeat"] = lambda version, request: CLOSE
    with Connection(fake.address) as connection:
        with pytest.raises(BrokerUnavailable, match=f"{fake.address} closed the connection with 1 request unanswered"):
            connection.ask(HeartbeatRequest())
        assert not connection.is_open
        with pytest.raises(BrokerUnavailable, match="is closed"):
            connection.ask(HeartbeatRequest())


def test_broker_that_never_answers_costs_no_more_than_the_timeout(fake):
    fake.handlers["Heartbeat"] = lambda version, request: SILENCE
    with Connection(fake.address, timeout=PATIENCE) as connection:
        with pytest.raises(BrokerUnavailable, match=r"did not answer: nothing came within 0\.2 seconds"):
            connection.ask(HeartbeatRequest(), timeout=0.2)
        assert not connection.is_open


@pytest.fixture
def raw_server() -> Iterator[object]:
    """`raw_server(function)`: something else than a broker; the function gets the accepted socket. The address."""
    listeners = []

    def serve(talk) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            accepted, _ = listener.accept()
            with accepted:
                try:
                    talk(accepted)
                except OSError:
                    return

        threading.Thread(target=run, daemon=True).start()
        return Address(*listener.getsockname())

    yield serve
    for listener in listeners:
        listener.close()


def test_answer_that_drips_in_too_slowly_ends_at_the_timeout(raw_server):
    def drip(accepted: socket.socket) -> None:
        accepted.recv(1000)
        accepted.sendall(struct.pack(">i", 1000))
        for _ in range(900):
            accepted.sendall(b"\0")
            time.sleep(0.02)

    # All of it takes 18 seconds and more, and then the connection would be closed.
    with pytest.raises(BrokerUnavailable, match="nothing came within"):
        Connection(raw_server(drip), timeout=0.3)


# Hostile answers.


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, (100 << 20) + 1])
def test_announced_size_out_of_bounds_is_refused_and_the_connection_closed(fake, size):
    fake.handlers["Heartbeat"] = lambda version, request: struct.pack(">i", size) + b"x" * 8
    with Connection(fake.address) as connection:
        with pytest.raises(
            MalformedMessage, match=f"^{fake.address}: a frame of {size} bytes is announced, 1 to 104857600 are allowed"
        ) as caught:
            connection.ask(HeartbeatRequest())
        assert caught.value.exit_code == 4
        assert not connection.is_open


def test_promised_hundred_megabytes_cost_nothing_until_they_come(fake):
    fake.handlers["Heartbeat"] = lambda version, request: struct.pack(">i", 100 << 20)
    with Connection(fake.address) as connection:
        tracemalloc.start()
        with pytest.raises(BrokerUnavailable):
            connection.ask(HeartbeatRequest(), timeout=0.2)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 20


def test_answer_to_another_request_is_refused(fake):
    fake.handlers["Heartbeat"] = lambda version, request: struct.pack(">iiih", 10, 4711, 0, 0)
    with Connection(fake.address) as connection, pytest.raises(MalformedMessage, match="correlation id 4711"):
        connection.ask(HeartbeatRequest())


@pytest.mark.parametrize(
    "banner", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46", b"SSH-2.0-OpenSSH_9.2\r\n"]
)
def test_something_else_than_a_broker_is_a_sentence_with_the_address(raw_server, banner):
    def talk(accepted: socket.socket) -> None:
        accepted.recv(1000)
        accepted.sendall(banner)

    address = raw_server(talk)
    with pytest.raises(MalformedMessage, match=f"^{address}: .*is a Kafka broker listening there, without TLS"):
        Connection(address)
