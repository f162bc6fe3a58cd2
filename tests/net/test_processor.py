"""What a processor does with answers that are large, late or not wanted, and with the last ones before it ends."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter

import pytest

from milepost.net import processor as processor_module
from milepost.net import slow_peers, socket_server
from milepost.net.processor import MOST_WAITING_OUTPUT
from tests.net.echo_server import Client, echo_server
from tests.waiting import PATIENCE, until

modes = pytest.mark.parametrize("pooled", [False, True], ids=["inline", "pooled"])


# Small enough that an answer of some megabytes does not fit into what the kernel keeps for both ends.
SMALL = 65536


def channels(server):
    return [channel for processor in server.server.processors for channel in list(processor.channels.values())]


def wait_for_output(server):
    """Until a large answer is on its way."""
    until(lambda: any(channel.out_bytes > 1_000_000 for channel in channels(server)))


@modes
def test_client_that_does_not_read_gets_no_more_than_a_bounded_output(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port, receive_buffer=SMALL)
        client.send(*[b"big 500000"] * 40)
        until(lambda: any(channel.out_bytes for channel in channels(server)))
        time.sleep(0.3)
        (channel,) = channels(server)
        assert 0 < channel.out_bytes <= MOST_WAITING_OUTPUT + 500_004
        assert len(server.handled) < 10
        assert [len(client.read() or b"") for _ in range(40)] == [500_000] * 40
        client.close()


@modes
def test_requests_behind_a_full_output_go_on_when_it_went_out_at_once(pooled, monkeypatch):
    with echo_server(pooled=pooled) as server:
        monkeypatch.setattr(processor_module, "MOST_WAITING_OUTPUT", 1000)
        client = Client(server.port)
        # One packet with all of them: nothing more will ever make the socket readable.
        client.send(*[b"big 2000"] * 20)
        assert [len(client.read() or b"") for _ in range(20)] == [2000] * 20
        client.close()


def test_requests_that_answer_each_other_in_turn_have_no_longer_pass_than_others(monkeypatch):
    """As of groups: what an answer lets in is answered by whoever gives that answer, so that no request seems to follow another."""
    monkeypatch.setattr(processor_module, "PASS_SECONDS", 0.0)
    with echo_server() as server:
        client = Client(server.port)
        client.send(*[b"box"] * 50)
        assert [client.read() for _ in range(50)] == [b"box"] * 50
        assert max(Counter(server.passes).values()) == 1
        client.close()


def test_client_that_takes_nothing_of_its_answer_for_too_long_is_closed(monkeypatch):
    monkeypatch.setattr(slow_peers, "STUCK_SECONDS", 5.0)
    with echo_server() as server:
        stuck, slow = Client(server.port, receive_buffer=SMALL), Client(server.port, receive_buffer=SMALL)
        stuck.send(b"big 3000000")
        slow.send(b"big 100000000")
        wait_for_output(server)
        until(lambda: len(channels(server)) >= 2)
        while len(channels(server)) == 2:
            # Slowly, but it takes something now and then.
            assert slow.socket.recv(50_000)
            time.sleep(0.1)
        assert [channel.peer.endswith(f":{slow.socket.getsockname()[1]}") for channel in channels(server)] == [True]
        stuck.close()
        slow.close()


def test_frame_that_stays_incomplete_for_too_long_is_closed(monkeypatch):
    monkeypatch.setattr(slow_peers, "FRAME_SECONDS", 0.3)
    with echo_server() as server:
        slow = Client(server.port)
        slow.socket.sendall(struct.pack(">i", 1000) + b"a few bytes")
        assert slow.read() is None
        slow.close()


# The end.


@modes
def test_answers_that_are_on_their_way_arrive_before_the_server_ends(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port, receive_buffer=SMALL)
        client.send(b"big 5000000")
        wait_for_output(server)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert client.read() == b"x" * 5_000_000
        assert client.read() is None
        stopping.join(PATIENCE)
        assert not stopping.is_alive()
        client.close()


def test_requests_in_the_queue_of_a_pool_are_answered_before_the_server_ends():
    with echo_server(pooled=True, num_io_threads=1) as server:
        clients = [Client(server.port) for _ in range(5)]
        clients[0].send(b"hold on")
        until(lambda: server.handled == [b"hold on"])
        for client in clients[1:]:
            client.send(b"hello")
        until(lambda: len(server.server.data_requests) >= 4)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        time.sleep(0.05)
        server.release.set()
        assert [client.read() for client in clients] == [b"hold on", *[b"hello"] * 4]
        stopping.join(PATIENCE)
        assert not stopping.is_alive()
        for client in clients:
            client.close()


@modes
def test_client_that_does_not_read_cannot_keep_the_server_from_ending(pooled, monkeypatch):
    monkeypatch.setattr(socket_server, "DRAIN_SECONDS", 0.2)
    with echo_server(pooled=pooled) as server:
        client = Client(server.port, receive_buffer=SMALL)
        client.send(b"big 5000000")
        wait_for_output(server)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(PATIENCE)
        assert not stopping.is_alive()
        client.close()


@modes
def test_request_that_comes_while_the_server_ends_is_not_taken(pooled):
    with echo_server(pooled=pooled) as server:
        client, late = Client(server.port, receive_buffer=SMALL), Client(server.port)
        assert late.ask(b"hello") == b"hello"
        client.send(b"big 5000000")
        wait_for_output(server)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        server.thread.join(PATIENCE)
        time.sleep(0.05)
        late.send(b"too late")
        assert client.read() == b"x" * 5_000_000
        assert late.read() is None
        stopping.join(PATIENCE)
        assert b"too late" not in server.handled
        client.close()
        late.close()
