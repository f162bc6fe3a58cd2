"""`queued.max.request.bytes`: how many bytes of requests a server holds, and who waits when they are used up."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from milepost.net.memory_pool import MemoryPool
from tests.net.echo_server import Client, EchoServer, echo_server
from tests.waiting import PATIENCE, until

modes = pytest.mark.parametrize("pooled", [False, True], ids=["inline", "pooled"])
MB = 1 << 20


# The pool itself.


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_something_fits_as_long_as_anything_is_left_however_large_it_is():
    pool = MemoryPool(100)
    assert not pool.refuses(list)
    pool.reserve(5000)
    assert (pool.available, pool.used) == (-4900, 5000)
    assert pool.refuses(list)


def test_whoever_was_refused_is_called_once_when_something_is_left_again():
    pool, called = MemoryPool(100), []
    pool.reserve(150)
    assert pool.refuses(lambda: called.append("a"))
    pool.release(50)
    assert called == [], "nothing is left yet"
    pool.release(10)
    assert called == ["a"]
    pool.reserve(200)
    pool.release(200)
    assert called == ["a"]


def test_seconds_are_counted_in_which_somebody_waited():
    now = Time()
    pool = MemoryPool(100, now)
    pool.reserve(100)
    now.now = 5.0
    assert pool.depleted_seconds == 0.0, "nobody wants anything"
    assert pool.refuses(list)
    now.now = 7.0
    assert pool.depleted_seconds == 2.0
    pool.release(1)
    now.now = 20.0
    assert pool.depleted_seconds == 2.0


# In a server.


def start_of(frame: bytes, size: int) -> bytes:
    return (struct.pack(">i", len(frame)) + frame)[: 4 + size]


def paused_for_memory(server: EchoServer) -> int:
    return sum(
        channel.is_paused_for_memory for processor in server.server.processors for channel in list(processor.channels.values())
    )


@modes
def test_request_waits_in_its_socket_while_another_one_has_all_the_memory(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=2 * MB) as server:
        pool = server.server.memory
        large, other = Client(server.port), Client(server.port)
        frame = b"x" * (3 * MB)
        large.socket.sendall(start_of(frame, 1000))
        until(lambda: pool.used == 4 + len(frame))
        other.send(b"hello")
        until(lambda: paused_for_memory(server) == 1)
        assert server.handled == []
        large.socket.sendall(frame[1000:])
        assert other.read() == b"hello"
        assert large.read() == frame
        until(lambda: pool.used == 0)
        assert pool.depleted_seconds > 0
        large.close()
        other.close()


@modes
def test_request_larger_than_all_the_memory_there_is_comes_through(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=1000) as server:
        client = Client(server.port)
        frame = bytes(range(256)) * 20_000
        assert client.ask(frame) == frame
        assert client.ask(b"and on") == b"and on"
        until(lambda: server.server.memory.used == 0)
        client.close()


@modes
def test_connection_that_goes_away_gives_its_memory_back(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=MB) as server:
        leaving, other = Client(server.port), Client(server.port)
        leaving.socket.sendall(start_of(b"x" * (2 * MB), 100))
        until(lambda: server.server.memory.available < 0)
        other.send(b"hello")
        until(lambda: paused_for_memory(server) == 1)
        leaving.close()
        assert other.read() == b"hello"
        until(lambda: server.server.memory.used == 0)
        other.close()


@modes
def test_connection_that_goes_away_while_it_waits_is_noticed(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=MB) as server:
        holding, waiting = Client(server.port), Client(server.port)
        frame = b"x" * (2 * MB)
        holding.socket.sendall(start_of(frame, 100))
        until(lambda: server.server.memory.available < 0)
        waiting.send(b"never read")
        until(lambda: paused_for_memory(server) == 1)
        # An abortive close: the kernel reports it whatever was asked for.
        waiting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        waiting.close()
        until(lambda: paused_for_memory(server) == 0)
        holding.socket.sendall(frame[100:])
        assert holding.read() == frame
        assert server.handled == [frame]
        holding.close()


@modes
def test_many_large_requests_at_once_all_come_through_in_turn(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=2 * MB, num_io_threads=2) as server:
        frames = [bytes([number]) * (MB + 300_000) for number in range(8)]
        answers: dict[int, bytes | None] = {}
        most_used = []

        def ask(number: int) -> None:
            client = Client(server.port)
            for _ in range(3):
                answers[number] = client.ask(frames[number])
                most_used.append(server.server.memory.used)
            client.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert answers == dict(enumerate(frames))
        # What there is, and what the last one that found something left may have taken beyond it.
        assert max(most_used) <= 2 * MB + 2 * (MB + 300_004)
        until(lambda: server.server.memory.used == 0)


def test_busy_connection_does_not_keep_the_memory_from_one_that_waits():
    with echo_server(queued_max_request_bytes=MB) as server:
        busy, waiting = Client(server.port), Client(server.port)
        frame = b"x" * (MB + 500_000)
        stop = threading.Event()

        def send_on() -> None:
            while not stop.is_set():
                busy.send(frame, frame, frame, frame)

        def read_on() -> None:
            while busy.read() is not None:
                pass

        threads = [threading.Thread(target=send_on, daemon=True), threading.Thread(target=read_on, daemon=True)]
        for thread in threads:
            thread.start()
        until(lambda: len(server.handled) > 3)
        for _ in range(5):
            assert waiting.ask(b"let me through") == b"let me through"
        stop.set()
        threads[0].join(PATIENCE)
        busy.socket.shutdown(socket.SHUT_RDWR)
        threads[1].join(PATIENCE)
        busy.close()
        waiting.close()


def test_without_the_setting_there_is_no_pool():
    with echo_server() as server:
        assert server.server.memory is None


def test_control_plane_does_not_wait_for_memory():
    with echo_server(control=True, queued_max_request_bytes=MB) as server:
        large, control = Client(server.port), Client(server.control_port)
        large.socket.sendall(start_of(b"x" * (2 * MB), 100))
        until(lambda: server.server.memory.available < 0)
        assert control.ask(b"still here") == b"still here"
        large.close()
        control.close()
