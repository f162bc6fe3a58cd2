"""A connection on an event loop: order, versions, and what becomes of open requests when the broker is gone, silent or talks nonsense."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.client.addresses import Address
from milepost.client.loop_connection import LoopConnection
from milepost.errors import BrokerUnavailable, InvalidRequest, MalformedMessage, RequestFailed, UnsupportedVersion
from milepost.net.event_loop import EventLoop
from milepost.protocol.messages import (
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.client.fake_broker import CLOSE, SILENCE, FakeBroker
from tests.waiting import PATIENCE


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    broker = FakeBroker(Heartbeat=lambda version, request: HeartbeatResponse(error_code=request.generation_id))
    yield broker
    broker.close()


class Asked:
    """What came of some requests, in order."""

    def __init__(self, loop: EventLoop, connection: LoopConnection):
        self.loop = loop
        self.connection = connection
        self.ended: list[Any] = []

    def ask(self, number: int = 0, **options: Any) -> None:
        self.connection.send(HeartbeatRequest(group_id="g", generation_id=number), self.answered, self.ended.append, **options)

    def answered(self, response: Any) -> None:
        self.ended.append(response.error_code)

    def until(self, count: int) -> list[Any]:
        self.loop.run_until(lambda: len(self.ended) >= count, self.loop.monotonic() + PATIENCE)
        assert len(self.ended) >= count, f"{len(self.ended)} of {count} requests ended"
        return self.ended


@pytest.fixture
def connect(loop: EventLoop, fake: FakeBroker) -> Iterator[Callable[..., Asked]]:
    made: list[Asked] = []

    def connect(address: Address | None = None, **options: Any) -> Asked:
        made.append(Asked(loop, LoopConnection(loop, address or fake.address, **options)))
        return made[-1]

    yield connect
    for asked in made:
        asked.connection.close()


def test_answers_come_in_the_order_of_the_requests(connect, fake):
    asked = connect()
    for number in range(50):
        asked.ask(number)
    assert asked.until(50) == list(range(50))
    assert fake.connections == 1


def test_newest_version_that_both_know_goes_out(connect, fake):
    fake.versions = {"ApiVersions": (0, 3), "Heartbeat": (0, 2)}
    asked = connect()
    asked.ask()
    asked.until(1)
    assert [(name, version) for name, version, _ in fake.asked] == [("Heartbeat", 2)]


def test_without_negotiation_the_named_version_goes_out_and_nothing_before_it(connect, fake):
    fake.handlers["ApiVersions"] = lambda version, request: CLOSE
    asked = connect(negotiate=False)
    asked.ask(7, version=1)
    assert asked.until(1) == [7]
    assert [(name, version) for name, version, _ in fake.asked] == [("Heartbeat", 1)]


def test_broker_that_knows_only_an_older_apiversions_is_asked_again(connect, fake):
    def answer(version: int, request: object) -> object:
        if version > 2:
            return bytes.fromhex("00000010 00000000 0023 00000001 0012 0000 0002".replace(" ", ""))
        return ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiKey(api_key=12, min_version=0, max_version=1)])

    fake.handlers["ApiVersions"] = answer
    asked = connect()
    asked.ask(3)
    assert asked.until(1) == [3]
    assert asked.connection.versions == {12: (0, 1)}


def test_broker_that_refuses_apiversions_is_given_up(connect, fake):
    fake.handlers["ApiVersions"] = lambda version, request: ApiVersionsResponse(error_code=42)
    asked = connect()
    asked.ask()
    (error,) = asked.until(1)
    assert isinstance(error, RequestFailed)
    assert not asked.connection.is_open


def test_request_that_the_broker_does_not_serve_fails_alone(connect, fake):
    fake.versions = {"ApiVersions": (0, 3), "Heartbeat": (0, 4)}
    asked = connect()
    asked.connection.send(ProduceRequest(), asked.answered, asked.ended.append)
    asked.ask(5)
    first, second = asked.until(2)
    assert isinstance(first, UnsupportedVersion)
    assert second == 5


def test_request_that_cannot_be_written_in_its_version_fails_alone(connect):
    asked = connect(negotiate=False)
    instance = HeartbeatRequest(group_id="g", group_instance_id="only from version 3 on")
    asked.connection.send(instance, asked.answered, asked.ended.append, version=0)
    asked.ask(4, version=0)
    first, second = asked.until(2)
    assert isinstance(first, (InvalidRequest, UnsupportedVersion))
    assert second == 4


def test_nobody_listens(connect, fake):
    fake.close()
    asked = connect()
    asked.ask()
    asked.ask()
    first, second = asked.until(2)
    assert isinstance(first, BrokerUnavailable)
    assert first is second
    assert "connection refused" in str(first) or "econnrefused" in str(first)


def test_host_that_does_not_exist(connect):
    asked = connect(Address("no-such-host.invalid", 9092))
    asked.ask()
    (error,) = asked.until(1)
    assert "no broker answers at no-such-host.invalid:9092" in str(error)


def test_broker_that_closes_fails_every_open_request_and_later_ones(connect, fake):
    fake.handlers["Heartbeat"] = lambda version, request: CLOSE
    asked = connect()
    for _ in range(3):
        asked.ask()
    assert [type(error) for error in asked.until(3)] == [BrokerUnavailable] * 3
    asked.ask()
    assert isinstance(asked.until(4)[3], BrokerUnavailable)


def test_silent_broker_is_given_up_after_the_timeout(connect, fake):
    fake.handlers["Heartbeat"] = lambda version, request: SILENCE
    asked = connect(timeout=0.1)
    asked.ask()
    (error,) = asked.until(1)
    assert "nothing came in time" in str(error)


def test_nonsense_ends_the_connection(connect, fake):
    fake.handlers["Heartbeat"] = lambda version, request: b"\xff\xff\xff\xff nonsense"
    asked = connect()
    asked.ask()
    assert isinstance(asked.until(1)[0], MalformedMessage)
    assert not asked.connection.is_open


def test_closing_fails_what_is_open_once(connect, fake, loop):
    fake.handlers["Heartbeat"] = lambda version, request: SILENCE
    asked = connect()
    asked.ask()
    asked.connection.close()
    asked.connection.close()
    asked.until(1)
    loop.run_once(0.05)
    assert len(asked.ended) == 1


def test_request_larger_than_the_socket_takes_at_once(connect, fake):
    fake.handlers["SyncGroup"] = lambda version, request: SyncGroupResponse(
        error_code=len(request.assignments[0].assignment) % 1000
    )
    asked = connect()
    assignment = SyncGroupRequest.Assignment(member_id="m", assignment=b"a" * 8_000_123)
    asked.connection.send(SyncGroupRequest(group_id="g", assignments=[assignment]), asked.answered, asked.ended.append)
    asked.ask(9)
    assert asked.until(2) == [123, 9]
