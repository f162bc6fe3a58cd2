"""Who gets a new connection, and what happens when there should be no more of them."""

from __future__ import annotations

import errno
import os
import time

import pytest

from milepost.net.acceptor import Acceptor
from milepost.net.connection_limits import ConnectionLimits, parse_overrides
from milepost.net.event_loop import EventLoop
from milepost.net.processor import Processor
from milepost.net.request_channel import RequestChannel
from tests.net.echo_server import Client, echo_server


def test_connections_go_to_the_processors_in_turn():
    with echo_server(num_network_threads=3) as server:
        clients = [Client(server.port) for _ in range(7)]
        for client in clients:
            assert client.ask(b"hello") == b"hello"
        assert [processor.opened for processor in server.server.processors] == [3, 2, 2]
        for client in clients:
            client.close()


def test_acceptor_is_bound_before_anything_is_accepted():
    loop = EventLoop()
    acceptor = Acceptor("PLAINTEXT", "127.0.0.1", 0, ConnectionLimits())
    client = Client(acceptor.address[1])
    client.send(b"early")
    processor = Processor(0, loop, RequestChannel(lambda request: request.send([b"\0\0\0\2ok"])))
    loop.run_once(0)
    assert not processor.channels
    acceptor.start(loop, [processor])
    while not processor.channels:
        loop.run_once(1)
    loop.run_once(1)
    assert client.read() == b"ok"
    address = acceptor.address
    acceptor.stop()
    assert acceptor.address == address, "connections that are still there may ask for it"
    processor.close_all()
    client.close()
    loop.close()


class OutOfDescriptors:
    """A listening socket whose process has none left for a while."""

    def __init__(self, sock, times: int):
        self._socket, self.left, self.tries = sock, times, 0

    def accept(self):
        self.tries += 1
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._socket.accept()

    def __getattr__(self, name: str):
        return getattr(self._socket, name)


def test_without_descriptors_new_connections_wait_and_the_loop_does_not_spin(caplog):
    with echo_server() as server, caplog.at_level("WARNING", "milepost.net"):
        acceptor = server.server.acceptors[0]
        acceptor._socket = trouble = OutOfDescriptors(acceptor._socket, times=2)
        before = time.monotonic()
        client = Client(server.port)
        assert client.ask(b"at last") == b"at last"
        assert time.monotonic() - before >= 0.2
        # Two refusals, the connection, and perhaps the look whether there is another one.
        assert trouble.tries <= 4
        client.close()
    assert "Too many open files; not accepting new connections" in caplog.text


def test_peer_that_was_gone_before_it_was_accepted_is_passed_over():
    class Aborted(OutOfDescriptors):
        def accept(self):
            if self.left:
                self.left -= 1
                raise ConnectionAbortedError(errno.ECONNABORTED, "gone")
            return self._socket.accept()

    with echo_server() as server:
        acceptor = server.server.acceptors[0]
        acceptor._socket = Aborted(acceptor._socket, times=3)
        client = Client(server.port)
        assert client.ask(b"hello") == b"hello"
        client.close()


def test_connections_over_the_rate_wait_for_the_next_second():
    with echo_server(limits=ConnectionLimits(creation_rate=3)) as server:
        start = time.monotonic()
        clients = [Client(server.port) for _ in range(7)]
        for client in clients:
            assert client.ask(b"hello") == b"hello"
        assert time.monotonic() - start >= 1.0
        for client in clients:
            client.close()


# The limits themselves.


def test_rate_counts_within_a_second_and_begins_anew_in_the_next():
    limits = ConnectionLimits(creation_rate=2)
    assert limits.wait_seconds(10.0) == 0
    limits.opened("a")
    limits.opened("a")
    assert limits.wait_seconds(10.25) == pytest.approx(0.75)
    assert limits.wait_seconds(11.0) == 0


def test_address_has_the_limit_of_its_override():
    limits = ConnectionLimits(per_address=1, overrides=parse_overrides(["10.0.0.1:2", "::1:3"]))
    assert limits.overrides == {"10.0.0.1": 2, "::1": 3}
    limits.opened("10.0.0.1")
    limits.opened("10.0.0.2")
    assert limits.admits("10.0.0.1") and not limits.admits("10.0.0.2")
    limits.opened("10.0.0.1")
    assert not limits.admits("10.0.0.1")
    limits.closed("10.0.0.1")
    assert limits.admits("10.0.0.1")
