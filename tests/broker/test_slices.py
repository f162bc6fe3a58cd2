"""Handlers that are generators: others are served between their slices, order and errors are as with any other handler."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from milepost.broker import slices
from milepost.broker.broker import Broker
from milepost.broker.requests import describe_log_dirs, list_groups
from milepost.net import output_budget
from milepost.protocol import frames
from milepost.protocol.messages import (
    ApiVersionsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
)
from tests.broker.scraping import scrape
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire
from tests.hostile.besieged import ABORT
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.parametrize("mode", ["inline", "pooled"])
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
BURN_SECONDS = 0.003
"""More than a slice."""


def burn() -> None:
    end = time.monotonic() + BURN_SECONDS
    while time.monotonic() < end:
        pass


@pytest.fixture
def start(brokers, mode, monkeypatch) -> Callable[..., Broker]:
    def started(*handlers: Any, **settings: str) -> Broker:
        """A broker that handles ListGroups, and DescribeLogDirs if there is a second one, like this."""
        for module, handler in zip((list_groups, describe_log_dirs), handlers, strict=False):
            monkeypatch.setattr(module, "handle", handler)
        return brokers.start(
            {"request.channel.mode": mode, **{name.replace("_", "."): value for name, value in settings.items()}}
        )

    return started


def test_others_are_answered_while_a_request_goes_on(start):
    go_on = threading.Event()

    def handle(request: Any, context: Any) -> Iterator[None]:
        while not go_on.is_set():
            yield
        return ListGroupsResponse(error_code=7)

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as long, Wire(broker.bootstrap_servers) as other:
        key = long.send(ListGroupsRequest(), 4)
        for _ in range(20):
            assert other.ask(HELLO, 3).error_code == 0
        until(lambda: broker.dispatcher.slices.suspended == 1)
        go_on.set()
        assert (key, long.read_frame()[5:7]) == (16, b"\0\0")


def test_requests_behind_a_long_one_are_answered_after_it(start):
    def handle(request: Any, context: Any) -> Iterator[None]:
        for _ in range(5):
            burn()
            yield
        return ListGroupsResponse(error_code=7)

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(ListGroupsRequest(), 4)
        wire.send(HELLO, 3)
        assert [wire.read_frame()[:4] for _ in range(2)] == [b"\0\0\0\1", b"\0\0\0\2"]


def test_long_requests_take_turns(start):
    order: list[str] = []
    both = threading.Event()

    def slowly(name: str) -> Iterator[None]:
        while not both.is_set():
            yield
        for _ in range(10):
            order.append(name)
            burn()
            yield

    def groups(request: Any, context: Any) -> Iterator[None]:
        yield from slowly("groups")
        return ListGroupsResponse()

    def directories(request: Any, context: Any) -> Iterator[None]:
        yield from slowly("directories")
        return DescribeLogDirsResponse()

    broker = start(groups, directories)
    with Wire(broker.bootstrap_servers) as one, Wire(broker.bootstrap_servers) as two:
        one.send(ListGroupsRequest(), 4)
        two.send(DescribeLogDirsRequest(topics=None), 4)
        until(lambda: broker.dispatcher.slices.suspended == 2)
        both.set()
        one.read_frame()
        two.read_frame()
    assert order == order[:2] * 10


def test_small_request_of_a_generator_is_answered_in_its_first_slice(start, monkeypatch):
    def handle(request: Any, context: Any) -> Iterator[None]:
        yield
        return ListGroupsResponse(error_code=7)

    broker = start(handle)
    monkeypatch.setattr(type(broker.server.loop), "next_pass", lambda loop, task: pytest.fail("it was put off"))
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(ListGroupsRequest(), 4).error_code == 7


def test_error_in_a_later_slice_closes_that_connection_only(start, caplog):
    def handle(request: Any, context: Any) -> Iterator[None]:
        burn()
        yield
        raise RuntimeError("a bug in the second slice")

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        wire.send(ListGroupsRequest(), 4)
        with pytest.raises(ConnectionError):
            wire.read_frame()
        assert other.ask(HELLO, 3).error_code == 0
    (record,) = [record for record in caplog.records if record.exc_info]
    assert (record.levelno, record.getMessage().split(" ")[:2]) == (logging.ERROR, ["ListGroups", "4"])
    assert broker.dispatcher.slices.suspended == 0
    caplog.clear()


def test_connection_that_is_closed_ends_its_request(start):
    began, ended = threading.Event(), threading.Event()

    def handle(request: Any, context: Any) -> Iterator[None]:
        began.set()
        try:
            while True:
                yield
        finally:
            ended.set()

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(ListGroupsRequest(), 4)
        assert began.wait(PATIENCE)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    assert ended.wait(PATIENCE)
    until(lambda: broker.dispatcher.slices.suspended == 0)


def test_broker_that_stops_ends_long_requests(start, brokers):
    began, ended = threading.Event(), threading.Event()

    def handle(request: Any, context: Any) -> Iterator[None]:
        began.set()
        try:
            while True:
                yield
        finally:
            ended.set()

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(ListGroupsRequest(), 4)
        assert began.wait(PATIENCE)
        brokers.stop(broker)
        assert ended.is_set()


def test_request_waits_for_what_happens_elsewhere(start):
    resumes: list[Callable[[], object]] = []
    passes: list[int] = []

    def handle(request: Any, context: Any) -> Iterator[Any]:
        yield resumes.append
        passes.append(1)
        return ListGroupsResponse(error_code=7)

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        wire.send(ListGroupsRequest(), 4)
        until(lambda: resumes)
        assert other.ask(HELLO, 3).error_code == 0
        assert (passes, broker.dispatcher.slices.suspended) == ([], 1)
        resumes[0]()  # on this thread, which is not the broker's
        wire.read_frame()
    assert passes == [1]


def test_long_request_keeps_its_frame_while_others_are_received(start):
    """Handlers may look at what they were sent in any slice, though all connections receive into the same memory."""
    seen: list[bytes] = []
    go_on = threading.Event()

    def handle(request: Any, context: Any) -> Iterator[None]:
        frame = context.request.frame
        seen.append(bytes(frame))
        while not go_on.is_set():
            yield
        seen.append(bytes(frame))
        return ListGroupsResponse()

    broker = start(handle)
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        create(other, wanted("t"))
        wire.send(ListGroupsRequest(states_filter=["x" * 1000]), 4)
        wire.send(HELLO, 3)
        until(lambda: seen)
        for _ in range(5):
            produce(other, "t", [b"y" * 100_000])
        go_on.set()
        assert [wire.read_frame()[:4] for _ in range(2)] == [b"\0\0\0\1", b"\0\0\0\2"]
    assert seen[0] == seen[1]


def test_large_request_and_its_answer_are_what_they_are_in_one_piece(start):
    names = [f"nobody-{number}" for number in range(20_000)]
    broker = start()
    with Wire(broker.bootstrap_servers) as wire:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names], allow_auto_topic_creation=False)
        topics = wire.ask(request, 12).topics
        assert [topic.name for topic in topics] == names
        assert {topic.error_code for topic in topics} == {3}


def test_large_request_that_does_not_parse_or_has_too_many_elements_closes_the_connection(start):
    topics = [MetadataRequest.Topic(name="nobody")] * 2000
    cut = frames.encode_request(3, 12, 1, "wire", MetadataRequest(topics=topics))[4:-10]
    broker = start()
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">i", len(cut)) + cut)
        with pytest.raises(ConnectionError):
            wire.read_frame()
        wire.reconnect()
        wire.send(MetadataRequest(topics=topics * 51), 12)
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_suspended_requests_are_counted(start):
    def handle(request: Any, context: Any) -> Iterator[Any]:
        burn()
        yield
        yield lambda resume: None

    broker = start(handle, milepost_metrics_port="0")
    with Wire(broker.bootstrap_servers) as wire:
        assert scrape(broker).value("milepost_requests_suspended") == 0
        wire.send(ListGroupsRequest(), 4)
        until(lambda: broker.dispatcher.slices.suspended)
        found = scrape(broker)
    assert found.value("milepost_requests_suspended") == 1
    assert BURN_SECONDS <= found.value("milepost_request_longest_slice_seconds") < 1


def test_only_a_few_of_the_longest_requests_go_on_at_a_time(start, monkeypatch):
    monkeypatch.setattr(slices, "FREE_SLICES", 3)
    begun: list[int] = []
    ended: list[int] = []
    most: list[int] = []

    def handle(request: Any, context: Any) -> Iterator[None]:
        number = context.correlation_id
        for turn in range(10):
            burn()
            yield
            if turn == 5:
                begun.append(number)
                most.append(len(begun) - len(ended))
        ended.append(number)
        return ListGroupsResponse()

    broker = start(handle)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(20)]
        for wire in wires:
            wire.send(ListGroupsRequest(), 4)
        with Wire(broker.bootstrap_servers) as other:
            assert other.ask(HELLO, 3).error_code == 0
        for wire in wires:
            wire.read_frame()
    assert len(ended) == 20
    assert max(most) == slices.MOST_AT_ONCE
    until(lambda: broker.dispatcher.slices.suspended == 0)


def test_answers_that_nobody_reads_wait_for_room_and_others_are_served(start, monkeypatch):
    monkeypatch.setattr(slices, "FREE_SLICES", 2)
    monkeypatch.setattr(output_budget, "MOST_WAITING", 1 << 20)
    group = ListGroupsResponse.Group(group_id="g" * 1000)

    def handle(request: Any, context: Any) -> Iterator[None]:
        for _ in range(3):
            burn()
            yield
        return ListGroupsResponse(groups=[group] * 3000)

    broker = start(handle)
    budget, most = broker.server.output, 0
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(40)]
        other = stack.enter_context(Wire(broker.bootstrap_servers))
        for wire in wires:
            wire.send(ListGroupsRequest(), 4)
        # Who reads nothing is closed while others wait, so that in the end all have had their turn.
        done = broker.dispatcher.slices

        def is_over() -> bool:
            nonlocal most
            assert other.ask(HELLO, 3).error_code == 0
            most = max(most, budget.waiting)
            return done.suspended == 0

        until(is_over)
        assert 0 < most <= (1 << 20) + (slices.MOST_AT_ONCE + 2) * 3_100_000
    until(lambda: budget.waiting == 0)
