"""One thing at a time in a broker with a pool of handlers, and who goes first."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost.broker.exclusive_gate import ExclusiveGate, GatedLoop
from milepost.net.event_loop import EventLoop
from milepost.protocol.messages import ApiVersionsRequest
from tests.broker.topics import create, offset, produce, wanted
from tests.broker.wire import Wire
from tests.waiting import PATIENCE, until


def test_nobody_passes_beside_another():
    gate, inside, most = ExclusiveGate(), [0], [0]

    def passing(first: bool) -> None:
        for _ in range(200):
            with gate.passing(first=first):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(passing, [number == 0 for number in range(6)]))
    assert most == [1]


def test_who_goes_first_waits_only_for_the_one_inside():
    gate, order, entered, leave = ExclusiveGate(), [], threading.Event(), threading.Event()

    def hold() -> None:
        with gate.passing(first=False):
            entered.set()
            assert leave.wait(PATIENCE)
            order.append("inside")

    def passing(name: str, first: bool) -> None:
        with gate.passing(first=first):
            order.append(name)

    with ThreadPoolExecutor(7) as pool:
        try:
            passed = [pool.submit(hold)]
            assert entered.wait(PATIENCE)
            passed += [pool.submit(passing, "data", False) for _ in range(5)]
            passed.append(pool.submit(passing, "control", True))
            until(lambda: gate._first)
        finally:
            leave.set()
        for each in passed:
            each.result()
    assert order == ["inside", "control", *["data"] * 5]


def test_error_inside_lets_the_next_one_pass():
    gate = ExclusiveGate()
    with pytest.raises(RuntimeError), gate.passing(first=False):
        raise RuntimeError
    with gate.passing(first=False):
        pass


def test_tasks_of_the_loop_pass_through_it_too():
    loop, gate = EventLoop(), ExclusiveGate()
    seen, broker_loop = [], GatedLoop(loop, gate)
    broker_loop.post(lambda: seen.append(gate._is_taken))
    broker_loop.later(0, lambda: seen.append(gate._is_taken))
    broker_loop.later(0, lambda: seen.append("cancelled")).cancel()
    loop.run_once(0)
    loop.run_once(0)
    assert seen == [True, True]
    assert not gate._is_taken
    loop.close()


# In a broker.


def test_producers_of_a_pooled_broker_get_an_offset_each(brokers):
    broker = brokers.start({"request.channel.mode": "pooled"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        given: list[int] = []

        def send(number: int) -> None:
            with Wire(broker.bootstrap_servers) as mine:
                for count in range(60):
                    given.append(produce(mine, "t", [b"%d-%d" % (number, count)]))

        # Threads change places often: whatever is not guarded meets another.
        before = sys.getswitchinterval()
        sys.setswitchinterval(0.00001)
        try:
            with ThreadPoolExecutor(6) as pool:
                list(pool.map(send, range(6)))
        finally:
            sys.setswitchinterval(before)
        assert sorted(given) == list(range(360))
        assert offset(wire, "t", -1) == 360


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_control_plane_answers_while_clients_keep_the_broker_busy(brokers, mode):
    settings = {
        "request.channel.mode": mode,
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "control.plane.listener.name": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    broker = brokers.start(settings)
    control_port = broker.server.control_acceptor.address[1]
    stop = threading.Event()
    with Wire(broker.bootstrap_servers) as wire, Wire(f"127.0.0.1:{control_port}") as control:
        create(wire, wanted("t"))

        def send_on() -> None:
            with Wire(broker.bootstrap_servers) as mine:
                while not stop.is_set():
                    produce(mine, "t", [b"x" * 1000])

        with ThreadPoolExecutor(4) as pool:
            sending = [pool.submit(send_on) for _ in range(4)]
            try:
                request = ApiVersionsRequest(client_software_name="controller", client_software_version="1")
                for _ in range(20):
                    assert control.ask(request, 3).error_code == 0
            finally:
                stop.set()
            for each in sending:
                each.result()
