"""What handlers send to other brokers goes out on the loop's thread, and answers wait for the handler that is at work."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from milepost.broker.exclusive_gate import ExclusiveGate, GatedLoop
from milepost.broker.gated_peers import GatedPeers
from milepost.errors import BrokerUnavailable
from milepost.net.event_loop import EventLoop
from milepost.protocol.messages import FetchRequest
from milepost.replica.metadata import BrokerInfo
from tests.waiting import PATIENCE, until

SOMEBODY = BrokerInfo(2, 7, ())


class Peers:
    """Answers at once, on whatever thread it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.is_gone = False

    def send(
        self, broker: Any, request: Any, version: Any, on_answer: Any, on_failure: Any, *, purpose: str, timeout: Any
    ) -> None:
        self.asked.append((purpose, threading.get_ident()))
        if self.is_gone:
            on_failure(BrokerUnavailable("gone"))
        else:
            on_answer("answer")

    def forget(self, broker_id: int) -> None:
        self.asked.append((f"forget {broker_id}", threading.get_ident()))


@pytest.fixture
def loop():
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def gate():
    return ExclusiveGate()


@pytest.fixture
def peers():
    return Peers()


@pytest.fixture
def in_turn(peers, loop, gate):
    return GatedPeers(peers, loop, GatedLoop(loop, gate))


def send(in_turn, heard, purpose="fetcher-0"):
    in_turn.send(SOMEBODY, FetchRequest(), 17, heard.append, heard.append, purpose=purpose)


def test_requests_go_out_in_order_on_the_thread_of_the_loop(in_turn, peers, loop):
    heard = []

    def handle():
        send(in_turn, heard, "first")
        send(in_turn, heard, "second")
        in_turn.forget(2)

    handler = threading.Thread(target=handle)
    handler.start()
    handler.join(PATIENCE)
    assert peers.asked == []
    loop.run_once(0)
    assert peers.asked == [(name, threading.get_ident()) for name in ("first", "second", "forget 2")]
    assert heard == ["answer", "answer"]


def test_failure_is_told_as_an_answer_is(in_turn, peers, loop):
    heard = []
    peers.is_gone = True
    send(in_turn, heard)
    loop.run_once(0)
    assert [str(each) for each in heard] == ["gone"]


def test_answer_waits_for_the_handler_that_is_at_work(in_turn, loop, gate):
    order, entered = [], threading.Event()

    def handle():
        with gate.passing(first=False):
            entered.set()
            send(in_turn, order)
            order.append("handled")

    handler = threading.Thread(target=handle)
    handler.start()
    assert entered.wait(PATIENCE)
    until(lambda: loop.run_once(0.05) or "answer" in order)
    handler.join(PATIENCE)
    assert order == ["handled", "answer"]
