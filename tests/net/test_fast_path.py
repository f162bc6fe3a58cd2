"""Requests that a fast path takes straight from the receive buffer, among others that go to handlers."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest

from milepost.net.fast_path import PipelinedRequests
from milepost.net.request_metrics import RequestMeter
from tests.net.echo_server import Client, EchoServer, echo_server
from tests.waiting import until


@dataclass
class Last:
    frame: bytes
    size: int

    def finish(self, request) -> None:
        request.send((struct.pack(">i", self.size) + self.frame,))


@dataclass
class FastEcho:
    """Takes frames that begin with "fast", at most so many in a pass."""

    most: int = 1000
    meter: RequestMeter = field(default_factory=lambda: RequestMeter(0, ()))
    passes: list[list[bytes]] = field(default_factory=list)

    def take(self, view, at, end, most, alone):
        start, taken, last = at, [], None
        while end - at >= 4 and len(taken) < (1 if alone else self.most):
            (size,) = struct.unpack_from(">i", view, at)
            frame = bytes(view[at + 4 : at + 4 + size])
            if size > most or at + 4 + size > end or not frame.startswith(b"fast"):
                break
            taken.append(frame)
            at += 4 + size
        if not taken:
            return None
        self.passes.append(taken)
        if alone:
            return PipelinedRequests(at, 0, 0, bytearray(), self.meter, Last(taken[0], len(taken[0])))
        return PipelinedRequests(at, len(taken), at - start - 4 * len(taken), bytearray(view[start:at]), self.meter, last)


def with_fast_path(server: EchoServer, client: Client, fast: FastEcho) -> None:
    """On the connections that are there."""
    assert client.ask(b"hello") == b"hello"

    def give() -> None:
        for processor in server.server.processors:
            for channel in processor.channels.values():
                channel.fast_path = fast

    server.server.loop.post(give)
    until(lambda: [channel.fast_path for each in server.server.processors for channel in list(each.channels.values())] == [fast])


def test_requests_of_both_kinds_are_answered_in_their_order():
    with echo_server() as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        frames = [b"fast 1", b"fast 2", b"slow lane", b"fast 3", b"other", b"fast 4"]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        assert fast.passes == [[b"fast 1", b"fast 2"], [b"fast 3"], [b"fast 4"]]
        until(lambda: fast.meter.requests == 4)  # the last one is counted when it has left
        client.close()


def test_passes_end_and_begin_anew():
    with echo_server() as server:
        client, fast = Client(server.port), FastEcho(most=3)
        with_fast_path(server, client, fast)
        frames = [b"fast %d" % number for number in range(8)]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        assert list(map(len, fast.passes)) == [3, 3, 2]
        client.close()


def test_behind_an_answer_that_is_owed_each_is_answered_by_itself():
    with echo_server() as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        frames = [b"fast 1", b"aside", b"fast 2", b"fast 3", b"other"]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        assert fast.passes == [[b"fast 1"], [b"fast 2"], [b"fast 3"]]
        client.close()


def test_control_plane_has_its_turn_between_two_of_them():
    with echo_server(control=True) as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        frames = [b"fast %d" % number for number in range(5)]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        assert list(map(len, fast.passes)) == [1] * 5
        client.close()


def test_pooled_handlers_get_all_requests():
    with echo_server(pooled=True) as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        frames = [b"fast 1", b"other", b"fast 2"]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        assert fast.passes == []
        client.close()


def test_frame_that_is_too_large_for_both_ends_the_connection():
    with echo_server(socket_request_max_bytes=100) as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        client.send(b"fast 1", b"fast" + b"x" * 200, b"fast 2")
        assert client.read() == b"fast 1"
        assert client.read() is None
        assert fast.passes == [[b"fast 1"]]
        client.close()


@pytest.mark.parametrize("size", [1, 7, 300])
def test_requests_in_pieces(size):
    with echo_server() as server:
        client, fast = Client(server.port), FastEcho()
        with_fast_path(server, client, fast)
        frames = [b"fast %d" % number for number in range(50)]
        stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
        for start in range(0, len(stream), size):
            client.socket.sendall(stream[start : start + size])
        assert [client.read() for _ in frames] == frames
        client.close()
