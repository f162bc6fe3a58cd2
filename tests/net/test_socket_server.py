"""The server as its clients see it, in both modes: order, partial reads and writes, muting, limits, two planes."""

from __future__ import annotations

import struct
import time

import pytest

from milepost.errors import PortUnavailable
from milepost.net import socket_server
from milepost.net.acceptor import Acceptor
from milepost.net.connection_limits import ConnectionLimits
from tests.net.echo_server import Client, echo_server
from tests.net.input_memory import input_memory
from tests.waiting import PATIENCE, until

modes = pytest.mark.parametrize("pooled", [False, True], ids=["inline", "pooled"])


@modes
def test_requests_that_are_sent_together_are_answered_in_order(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        frames = [b"request %d" % number for number in range(500)]
        client.send(*frames)
        assert [client.read() for _ in frames] == frames
        client.close()


@modes
def test_an_answer_that_comes_later_holds_back_those_behind_it(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        client.send(b"later one", b"two", b"later three", b"four")
        assert [client.read() for _ in range(4)] == [b"later one", b"two", b"later three", b"four"]
        client.close()


def test_connection_with_many_requests_at_once_lets_others_have_their_turn():
    with echo_server() as server:
        busy, other = Client(server.port), Client(server.port)
        assert other.ask(b"hello") == b"hello"
        busy.send(*[b"slow"] * 10)
        until(lambda: b"slow" in server.handled)
        assert other.ask(b"me too") == b"me too"
        assert server.handled.index(b"me too") < 10, "it was served before the last of the others"
        assert [busy.read() for _ in range(10)] == [b"slow"] * 10
        busy.close()
        other.close()


@modes
def test_one_connection_that_waits_does_not_hold_up_another(pooled):
    with echo_server(pooled=pooled) as server:
        waiting, other = Client(server.port), Client(server.port)
        waiting.send(b"later one")
        assert other.ask(b"two") == b"two"
        assert waiting.read() == b"later one"
        waiting.close()
        other.close()


@modes
def test_a_request_that_arrives_byte_by_byte_is_answered_once_it_is_whole(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        for byte in struct.pack(">i", 5) + b"hello":
            client.socket.sendall(bytes([byte]))
        assert client.read() == b"hello"
        client.close()


@modes
def test_a_request_larger_than_the_receive_buffer_comes_through_whole(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        frame = bytes(range(256)) * 20_000
        assert client.ask(frame) == frame
        assert client.ask(b"and on") == b"and on"
        client.close()


@modes
def test_a_client_that_reads_slowly_gets_every_byte(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port, receive_buffer=4096)
        frames = [b"%d" % number * 300_000 for number in range(4)]
        client.send(*frames[:2])
        time.sleep(0.1)
        client.send(*frames[2:])
        assert [client.read() for _ in frames] == frames
        client.close()


@modes
def test_a_request_without_an_answer_lets_the_next_one_through(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        client.send(b"silent one", b"two")
        assert client.read() == b"two"
        assert server.handled == [b"silent one", b"two"]
        client.close()


@modes
def test_a_refused_request_ends_its_connection_and_no_other(pooled):
    with echo_server(pooled=pooled) as server:
        refused, other = Client(server.port), Client(server.port)
        assert refused.ask(b"close me") is None
        assert other.ask(b"still here") == b"still here"
        refused.close()
        other.close()


@modes
def test_a_throttled_connection_gets_its_answer_at_once(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        client.send(b"throttled 600", b"two")
        assert client.read() == b"throttled 600"
        assert server.handled == [b"throttled 600"]
        client.close()


@modes
def test_a_throttled_connection_gets_the_next_answer_later(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        start = time.monotonic()
        client.send(b"throttled 0.2", b"two")
        assert [client.read(), client.read()] == [b"throttled 0.2", b"two"]
        assert time.monotonic() - start >= 0.2
        client.close()


@modes
def test_garbage_behind_a_throttled_request_ends_that_connection_and_no_other(pooled):
    with echo_server(pooled=pooled) as server:
        client, healthy = Client(server.port), Client(server.port)
        client.socket.sendall(struct.pack(">i", 13) + b"throttled 0.1" + b"GET / HTTP/1.1\r\n")
        assert [client.read(), client.read()] == [b"throttled 0.1", None]
        assert healthy.ask(b"fine") == b"fine"
        client.close()
        healthy.close()


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, 1001], ids=str)
def test_a_size_that_cannot_be_closes_the_connection(size):
    with echo_server(socket_request_max_bytes=1000) as server:
        client, healthy = Client(server.port), Client(server.port)
        client.socket.sendall(struct.pack(">i", size) + b"x")
        assert client.read() is None
        assert healthy.ask(b"fine") == b"fine"
        client.close()
        healthy.close()


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x16\x03\x01\x02\x00", "a TLS client"),
        (b"GET / HTTP/1.1\r\n", "an HTTP client"),
        (b"SSH-2.0-OpenSSH\r\n", "an SSH client"),
    ],
)
def test_another_protocol_is_recognised_in_the_log(caplog, start, name):
    with echo_server() as server:
        client = Client(server.port)
        client.socket.sendall(start)
        assert client.read() is None
        client.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"this looks like {name}" in caplog.text


@modes
def test_an_error_that_a_handler_lets_through_ends_the_server(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)
        client.send(b"bug")
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()
        assert isinstance(server.error, RuntimeError)
        client.close()


def test_an_error_on_the_thread_of_the_control_plane_ends_the_server():
    with echo_server(control=True, pooled=True) as server:

        def bug() -> None:
            raise RuntimeError("on the other thread")

        server.server._control_loop.post(bug)
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()
        assert isinstance(server.error, RuntimeError)


def test_a_silent_connection_is_closed_and_one_that_talks_is_not():
    with echo_server() as server:
        talking, silent = Client(server.port), Client(server.port)
        for client in (talking, silent):
            assert client.ask(b"hello") == b"hello"
        port = silent.socket.getsockname()[1]
        channels = [channel for processor in server.server.processors for channel in processor.channels.values()]
        next(channel for channel in channels if channel.peer.endswith(f":{port}")).last_active -= 601
        assert silent.read() is None
        assert talking.ask(b"and on") == b"and on"
        silent.close()
        talking.close()


def test_too_many_connections_from_one_address_are_closed_at_once():
    with echo_server(limits=ConnectionLimits(per_address=2)) as server:
        first, second, third = (Client(server.port) for _ in range(3))
        assert first.ask(b"1") == b"1" and second.ask(b"2") == b"2"
        assert third.ask(b"3") is None
        first.close()
        until(lambda: sum(len(processor.channels) for processor in server.server.processors) == 1)
        fourth = Client(server.port)
        assert fourth.ask(b"4") == b"4"
        for client in (second, third, fourth):
            client.close()


def test_over_the_limit_the_address_with_most_connections_makes_room():
    with echo_server(limits=ConnectionLimits(total=6)) as server:
        quiet = Client(server.port, address="127.0.0.2")
        assert quiet.ask(b"quiet") == b"quiet"
        crowd = []
        for number in range(20):
            crowd.append(Client(server.port))
            assert crowd[-1].ask(b"%d" % number) == b"%d" % number
        assert quiet.ask(b"still here") == b"still here", "it has been silent longest, and is alone at its address"
        for client in (quiet, *crowd):
            client.close()


def test_newcomer_counts_towards_the_connections_of_its_address():
    with echo_server(limits=ConnectionLimits(total=3)) as server:
        others = [Client(server.port, address="127.0.0.2") for _ in range(2)]
        assert [client.ask(b"other") for client in others] == [b"other"] * 2
        first = Client(server.port)
        assert first.ask(b"1") == b"1"
        second = Client(server.port)
        assert second.ask(b"2") == b"2"
        assert first.read() is None
        assert [client.ask(b"still here") for client in others] == [b"still here"] * 2
        for client in (*others, first, second):
            client.close()


def held(server) -> int:
    """Bytes of requests that are not complete."""
    return sum(channel.received_bytes for processor in server.server.processors for channel in list(processor.channels.values()))


def test_incomplete_requests_that_hold_too_much_together_are_closed_the_largest_first(monkeypatch):
    monkeypatch.setattr(socket_server, "MOST_HELD", 1_000_000)
    with echo_server() as server:
        small, large, healthy = Client(server.port), Client(server.port), Client(server.port)
        large.socket.sendall(struct.pack(">i", 2_000_000) + bytes(900_000))
        until(lambda: held(server) == 900_004)
        small.socket.sendall(struct.pack(">i", 2_000_000) + bytes(300_000))
        assert healthy.ask(b"fine") == b"fine"
        assert large.read() is None
        small.socket.sendall(bytes(1_700_000))
        assert small.read() == bytes(2_000_000)
        assert healthy.ask(b"fine") == b"fine"
        for client in (small, large, healthy):
            client.close()


def test_over_the_limit_the_connection_silent_longest_makes_room():
    with echo_server(limits=ConnectionLimits(total=2)) as server:
        oldest = Client(server.port)
        assert oldest.ask(b"1") == b"1"
        time.sleep(0.05)
        younger = Client(server.port)
        assert younger.ask(b"2") == b"2"
        newest = Client(server.port)
        assert newest.ask(b"3") == b"3"
        assert oldest.read() is None
        assert younger.ask(b"4") == b"4"
        for client in (oldest, younger, newest):
            client.close()


@modes
def test_a_control_request_waits_for_at_most_one_data_request(pooled):
    with echo_server(control=True, pooled=pooled, num_io_threads=1) as server:
        data, control = Client(server.port), Client(server.control_port)
        assert control.ask(b"ready") == b"ready"
        words = [b"hold on", *[b"slow %d" % number for number in range(10)]]
        data.send(*words)
        until(lambda: b"hold on" in server.handled)
        control.send(b"control")
        server.release.set()
        assert control.read() == b"control"
        before = server.handled.index(b"control")
        assert sum(frame.startswith(b"slow") for frame in server.handled[:before]) <= 1
        assert [data.read() for _ in words] == words
        data.close()
        control.close()


def test_handlers_can_be_doubled_and_halved_while_the_server_runs():
    with echo_server(pooled=True, num_io_threads=2) as server:
        client = Client(server.port)
        server.server.resize_handlers(4)
        assert client.ask(b"four") == b"four"
        server.server.resize_handlers(2)
        assert client.ask(b"two") == b"two"
        client.close()


def test_a_port_in_use_is_one_sentence():
    with echo_server() as server, pytest.raises(PortUnavailable, match=f"127.0.0.1:{server.port}: cannot listen there"):
        Acceptor("PLAINTEXT", "127.0.0.1", server.port, ConnectionLimits())


def test_a_frame_that_is_only_announced_costs_no_memory():
    with echo_server() as server:
        clients = [Client(server.port) for _ in range(50)]
        for client in clients:
            client.socket.sendall(struct.pack(">i", 100 << 20) + b"few bytes")
        healthy = Client(server.port)
        assert healthy.ask(b"fine") == b"fine"
        kept = [input_memory(channel) for processor in server.server.processors for channel in processor.channels.values()]
        assert max(kept) < 100
        for client in [*clients, healthy]:
            client.close()
