"""Too many connections, too many requests, too few descriptors: N-18 and N-19. Each broker has limits of its own."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import MetadataRequest
from tests.hostile.besieged import ABORT, Besieged, Stranger
from tests.waiting import until

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


def come(broker: Besieged, stack: ExitStack, count: int) -> list[Stranger]:
    """So many connections, all of which are accepted when this returns.

    A few at a time, and the healthy client in between: were it silent while a crowd comes, it would be the one to make room.
    """
    strangers: list[Stranger] = []
    while len(strangers) < count:
        strangers += [stack.enter_context(broker.connect()) for _ in range(20)]
        assert strangers[-1].send_bytes(METADATA).read_frame()
        broker.healthy.get_on(2)
    return strangers


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_ten_thousand_attempts_over_the_limit_of_an_address(start, mode):
    broker = start(max_connections_per_ip="10", request_channel_mode=mode)
    with ExitStack() as stack:
        admitted = [stack.enter_context(broker.connect()) for _ in range(9)]
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


def test_connections_over_the_limit_in_all_take_the_place_of_those_that_are_silent(start):
    broker = start(max_connections="50")
    with ExitStack() as stack:
        strangers = come(broker, stack, 120)
        until(lambda: broker.measure().sockets <= 50 + 5)
        # The last to come are the ones that are there; the healthy client was never silent, so it is too.
        assert strangers[-1].send_bytes(METADATA).read_frame()
        assert strangers[0].is_closed_by_the_broker


def test_more_connections_than_descriptors(start):
    """Some descriptors are not for connections, so that logs can be opened whatever comes."""
    broker = start("sh", "-c", 'ulimit -n 256 && exec "$@"', "sh")
    with ExitStack() as stack:
        come(broker, stack, 300)
        until(lambda: broker.measure().sockets <= 160 + 5)
        wire = stack.enter_context(broker.wire())
        topics = [MetadataRequest.Topic(name=f"more-{number}") for number in range(20)]
        assert [topic.error_code for topic in wire.ask(MetadataRequest(topics=topics), 12).topics] == [0] * 20


def test_out_of_descriptors_new_connections_wait_and_old_ones_are_served(start):
    broker = start()
    now = broker.measure()
    room = 16
    resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (now.sockets + now.files + room, 20_000))
    with ExitStack() as stack:
        strangers = [stack.enter_context(broker.connect()) for _ in range(room + 30)]
        until(lambda: "not accepting new connections" in broker.log)
        assert strangers[0].send_bytes(METADATA).read_frame()
        broker.healthy.get_on(50)
        before, start = broker.log.count("not accepting new connections"), time.monotonic()
        time.sleep(0.5)
        tries, seconds = broker.log.count("not accepting new connections") - before, time.monotonic() - start
        assert tries < 20 * seconds, "it tries again and again"
        for stranger in strangers[: room + 20]:
            stranger.close()
        # There is room again for those who waited.
        for stranger in strangers[room + 20 :]:
            assert stranger.send_bytes(METADATA).read_frame()


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

    with ThreadPoolExecutor(20) as pool:
        floods = [pool.submit(flood) for _ in range(20)]
        broker.healthy.get_on(5)
        for each in floods:
            each.result()
    assert answered == [1000] * 20
    assert broker.measure().memory < before.memory + (64 << 20)
