"""Talking to other brokers: one connection per purpose, Kafka's client ids, and a new connection after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.net.event_loop import EventLoop
from milepost.protocol.messages import HeartbeatRequest, HeartbeatResponse
from milepost.replica.loop_peers import LoopPeers, client_id
from milepost.replica.metadata import BrokerInfo, Endpoint
from tests.client.fake_broker import CLOSE, FakeBroker
from tests.waiting import until


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


@pytest.fixture
def peers(loop: EventLoop) -> Iterator[LoopPeers]:
    made = LoopPeers(loop, 2, "REPL", "CTRL")
    yield made
    made.close()


@pytest.fixture
def ask(loop: EventLoop, peers: LoopPeers, fake: FakeBroker) -> Callable[..., Any]:
    def ask(purpose: str, number: int = 0, listener: str = "REPL", version: int | None = 4) -> Any:
        ended: list[Any] = []
        broker = BrokerInfo(1, 5, (Endpoint(listener, "PLAINTEXT", fake.address.host, fake.address.port),))
        request = HeartbeatRequest(group_id="g", generation_id=number)
        peers.send(broker, request, version, lambda answer: ended.append(answer.error_code), ended.append, purpose=purpose)
        until(lambda: loop.run_once(0.02) or ended, "nothing came back", pause=0)
        return ended[0]

    return ask


def test_purposes_have_connections_of_their_own(ask, fake):
    assert [ask(purpose, number) for number, purpose in enumerate(("fetcher-0", "controller", "fetcher-0", "controller"))] == [
        0,
        1,
        2,
        3,
    ]
    assert fake.connections == 2


def test_new_connection_after_a_failure(ask, fake):
    fake.handlers["Heartbeat"] = lambda version, request: CLOSE
    assert "closed the connection" in str(ask("markers"))
    fake.handlers["Heartbeat"] = lambda version, request: HeartbeatResponse(error_code=9)
    assert ask("markers") == 9


def test_versions_are_asked_for_when_none_is_named(ask, fake):
    fake.versions = {"ApiVersions": (0, 3), "Heartbeat": (0, 1)}
    assert ask("to-controller", 3, version=None) == 3
    assert fake.asked[-1][1] == 1


def test_broker_without_our_listener(ask):
    assert "broker 1 has no listener REPL" in str(ask("fetcher-0", listener="OTHER"))


def test_controller_takes_the_control_plane(ask):
    assert ask("controller", 4, listener="CTRL") == 4


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [
        ("controller", "2"),
        ("fetcher-1", "broker-2-fetcher-1"),
        ("markers", "broker-2-txn-marker-sender"),
        ("verification", "AddPartitionsManager-client-2"),
    ],
)
def test_client_ids_are_kafkas(purpose, expected):
    assert client_id(2, purpose) == expected
