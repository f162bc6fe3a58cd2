"""`queued.max.request.bytes`: how many bytes of requests a server holds, and who waits when they are used up."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


class Holder:
    def __init__(self, received_bytes: int = 0):
        self.received_bytes = received_bytes


def test_while_nothing_is_left_one_goes_on_to_its_end():
    pool = MemoryPool(100)
    first, second = Holder(), Holder()
    assert not pool.refuses(second, list)
    pool.reserve(5000)
    assert (pool.available, pool.used) == (-4900, 5000)
    assert [pool.refuses(holder, list) for holder in (first, second, first)] == [False, True, False]


def test_whoever_was_refused_is_called_once_when_something_is_left_again():
    pool, called = MemoryPool(100), []
    pool.reserve(150)
    assert not pool.refuses(Holder(), list)
    assert pool.refuses(Holder(), lambda: called.append("a"))
    pool.release(50)
    assert called == [], "nothing is left yet"
    pool.release(10)
    assert called == ["a"]
    pool.reserve(200)
    pool.release(200)
    assert called == ["a"]


def test_whoever_was_refused_is_called_when_the_one_that_went_on_is_through():
    pool, called = MemoryPool(100), []
    pool.reserve(150)
    first, second = Holder(), Holder()
    assert not pool.refuses(first, list)
    assert pool.refuses(second, lambda: called.append("a"))
    pool.leave(second)
    assert called == [], "it is not the one that others wait for"
    pool.leave(first)
    assert called == ["a"]
    assert not pool.refuses(second, list)


def test_seconds_are_counted_in_which_somebody_waited():
    now = Time()
    pool = MemoryPool(100, now)
    pool.reserve(100)
    now.now = 5.0
    assert not pool.refuses(Holder(), list)
    assert pool.depleted_seconds == 0.0, "nobody waits"
    assert pool.refuses(Holder(), list)
    now.now = 7.0
    assert pool.depleted_seconds == 2.0
    pool.release(1)
    now.now = 20.0
    assert pool.depleted_seconds == 2.0


def test_slow_one_that_keeps_others_waiting_is_found():
    pool = MemoryPool(100)
    pool.reserve(100)
    holder = Holder(50)
    assert not pool.refuses(holder, list)
    assert [pool.too_slow(), pool.too_slow()] == [None, None], "nobody waits for it"
    assert pool.refuses(Holder(), list)
    assert pool.too_slow() is None, "it has a second"
    holder.received_bytes += MB
    assert pool.too_slow() is None
    holder.received_bytes += MB - 1
    assert pool.too_slow() is holder


# In a server.


def start_of(frame: bytes, size: int) -> bytes:
    return (struct.pack(">i", len(frame)) + frame)[: 4 + size]


def paused_for_memory(server: EchoServer) -> int:
    return sum(
        channel.is_paused_for_memory for processor in server.server.processors for channel in list(processor.channels.values())
    )


@contextmanager
def full(**settings: Any) -> Iterator[tuple[EchoServer, Client, Client]]:
    """A server without memory left, and two connections that hold a part of a request each."""
    with echo_server(queued_max_request_bytes=MB, **settings) as server:
        first, second = Client(server.port), Client(server.port)
        for number, client in enumerate((first, second), 1):
            client.socket.sendall(start_of(LARGE, MB // 2))
            until(lambda expected=number * (MB // 2 + 4): server.server.memory.used == expected)
        yield server, first, second
        first.close()
        second.close()


LARGE = b"x" * (3 * MB)


@modes
def test_large_requests_are_completed_one_after_the_other_while_there_is_no_memory(pooled):
    with full(pooled=pooled) as (server, first, second):
        pool = server.server.memory
        first.socket.sendall(LARGE[MB // 2 : MB])
        until(lambda: pool.used == MB // 2 + 4 + MB + 4)
        second.socket.sendall(LARGE[MB // 2 : MB])
        until(lambda: paused_for_memory(server) == 1)
        assert server.handled == []
        first.socket.sendall(LARGE[MB:])
        assert first.read() == LARGE
        second.socket.sendall(LARGE[MB:])
        assert second.read() == LARGE
        until(lambda: pool.used == 0)
        assert pool.depleted_seconds > 0


@modes
def test_small_requests_come_through_while_there_is_no_memory(pooled):
    with full(pooled=pooled) as (server, _, _):
        other = Client(server.port)
        for _ in range(5):
            assert other.ask(b"hello") == b"hello"
        assert server.server.memory.available < 0
        other.close()


@modes
def test_what_is_announced_takes_no_memory_from_others(pooled):
    with echo_server(pooled=pooled, queued_max_request_bytes=MB) as server:
        talkers = [Client(server.port) for _ in range(10)]
        for talker in talkers:
            talker.socket.sendall(start_of(LARGE, 100))
        until(lambda: server.server.memory.used == 10 * 104)
        other = Client(server.port)
        assert other.ask(LARGE) == LARGE
        for client in (*talkers, other):
            client.close()


@modes
def test_slow_request_that_keeps_others_waiting_is_closed(pooled):
    with full(pooled=pooled) as (server, first, second):
        first.socket.sendall(b"x")
        until(lambda: server.server.memory.finisher is not None)
        second.socket.sendall(LARGE[MB // 2 :])
        assert second.read() == LARGE
        assert first.read() is None


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
    with full(pooled=pooled) as (server, first, second):
        first.socket.sendall(b"x")
        until(lambda: server.server.memory.finisher is not None)
        first.close()
        second.socket.sendall(LARGE[MB // 2 :])
        assert second.read() == LARGE
        until(lambda: server.server.memory.used == 0)


@modes
def test_connection_that_goes_away_while_it_waits_is_noticed(pooled):
    with full(pooled=pooled) as (server, first, second):
        first.socket.sendall(b"x")
        until(lambda: server.server.memory.finisher is not None)
        second.socket.sendall(b"x")
        until(lambda: paused_for_memory(server) == 1)
        # An abortive close: the kernel reports it whatever was asked for.
        second.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        second.close()
        until(lambda: paused_for_memory(server) == 0)
        first.socket.sendall(LARGE[MB // 2 + 1 :])
        assert first.read() == LARGE
        assert server.handled == [LARGE]


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
    with full(control=True) as (server, first, _):
        first.socket.sendall(b"x")
        until(lambda: server.server.memory.finisher is not None)
        control = Client(server.control_port)
        assert control.ask(LARGE) == LARGE
        control.close()
