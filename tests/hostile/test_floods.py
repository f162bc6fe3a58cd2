"""Too many connections, too many requests, too few descriptors: N-18 and N-19. Each broker has limits of its own."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import MetadataRequest
from tests.hostile.besieged import ABORT, PATIENCE_SECONDS, Besieged

METADATA = frames.encode_request(3, 12, 7, "hostile", MetadataRequest(topics=[]))
Start = Callable[..., Besieged]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A broker of its own; judged at the end like the others."""
    with ExitStack() as stack:

        def start(*arguments: str, **settings: str) -> Besieged:
            besieged = Besieged(tmp_path / "broker", *arguments, **settings)
            stack.callback(besieged.end)
            stack.callback(besieged.judge, besieged.measure(), besieged.healthy.rounds)
            return besieged

        yield start


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert what()


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_ten_thousand_attempts_over_the_limit_of_an_address(start, mode):
    broker = start(max_connections_per_ip="10", request_channel_mode=mode)
    admitted = [broker.connect() for _ in range(9)]
    for stranger in admitted:
        assert stranger.send_bytes(METADATA).read_frame()
    before = broker.measure()
    for _ in range(10_000):
        with socket.socket() as refused:
            refused.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            refused.connect(("127.0.0.1", broker.port))
            with suppress(ConnectionResetError):
                assert refused.recv(1) == b""
    assert broker.measure().sockets <= before.sockets
    for stranger in admitted:
        assert stranger.send_bytes(METADATA).read_frame()
        stranger.close()


def test_connections_over_the_limit_in_all_take_the_place_of_those_that_are_silent(start):
    broker = start(max_connections="50")
    strangers = [broker.connect() for _ in range(120)]
    wait_for(lambda: broker.measure().sockets <= 50 + 5)
    # The last to come are the ones that are there; the healthy client was never silent, so it is too.
    assert strangers[-1].send_bytes(METADATA).read_frame()
    assert strangers[0].is_closed_by_the_broker
    for stranger in strangers:
        stranger.close()


def test_more_connections_than_descriptors(start):
    """Some descriptors are not for connections, so that logs can be opened whatever comes."""
    broker = start("sh", "-c", 'ulimit -n 256 && exec "$@"', "sh")
    strangers = [broker.connect() for _ in range(300)]
    wait_for(lambda: broker.measure().sockets <= 160 + 5)
    with broker.wire() as wire:
        topics = [MetadataRequest.Topic(name=f"more-{number}") for number in range(20)]
        assert [topic.error_code for topic in wire.ask(MetadataRequest(topics=topics), 12).topics] == [0] * 20
    for stranger in strangers:
        stranger.close()


def test_out_of_descriptors_new_connections_wait_and_old_ones_are_served(start):
    broker = start()
    now = broker.measure()
    room = 16
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (now.sockets + now.files + room, 20_000))
    strangers = [broker.connect() for _ in range(room + 30)]
    wait_for(lambda: "new connections wait" in broker.log)
    assert strangers[0].send_bytes(METADATA).read_frame()
    broker.healthy.get_on(50)
    before = broker.log.count("new connections wait")
    time.sleep(0.5)
    assert broker.log.count("new connections wait") - before < 10, "it tries again and again"
    for stranger in strangers[: room + 20]:
        stranger.close()
    # There is room again for those who waited.
    for stranger in strangers[room + 20 :]:
        assert stranger.send_bytes(METADATA).read_frame()
        stranger.close()


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_connection_flood(start, mode):
    broker = start(request_channel_mode=mode)
    for _ in range(10):
        strangers = []
        for _ in range(300):
            stranger = socket.socket()
            stranger.setblocking(False)
            stranger.connect_ex(("127.0.0.1", broker.port))
            strangers.append(stranger)
        for stranger in strangers:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            stranger.close()
    broker.healthy.get_on(20)


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_request_flood(start, mode):
    """Twenty peers with a thousand requests each on the way: all are answered, and nobody else has to wait for all of them."""
    broker = start(request_channel_mode=mode, queued_max_requests="10")
    before = broker.measure()
    answered: list[int] = []

    def flood() -> None:
        with broker.connect() as stranger:
            sender = threading.Thread(target=stranger.send_bytes, args=(METADATA * 1000,))
            sender.start()
            answered.append(sum(stranger.read_frame()[:4] == METADATA[8:12] for _ in range(1000)))
            sender.join()

    floods = [threading.Thread(target=flood) for _ in range(20)]
    for thread in floods:
        thread.start()
    broker.healthy.get_on(5)
    for thread in floods:
        thread.join()
    assert answered == [1000] * 20
    assert broker.measure().memory < before.memory + (64 << 20)
