"""The pool of handlers: its size, its idle time, its bounded queue, and the end of a handler that fails."""

from __future__ import annotations

import time

import pytest

from milepost.errors import InvalidArgument
from milepost.net.handler_pool import RequestHandlerPool
from milepost.net.request_channel import PooledRequestChannel
from tests.net.echo_server import Client, echo_server
from tests.waiting import PATIENCE, until


@pytest.fixture
def pool():
    pool = RequestHandlerPool(4, PooledRequestChannel(lambda request: None), lambda error: None)
    yield pool
    pool.shutdown()


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_size_may_change_between_half_and_double(pool, size):
    pool.resize(size)
    assert pool.size == size


@pytest.mark.parametrize("size", [-1, 0, 1, 9, 100])
def test_other_sizes_are_refused_and_change_nothing(pool, size):
    with pytest.raises(InvalidArgument, match=f"num.io.threads: cannot go from 4 to {size}; between half and double"):
        pool.resize(size)
    assert pool.size == 4


def test_pool_of_one_cannot_shrink():
    pool = RequestHandlerPool(1, PooledRequestChannel(lambda request: None), lambda error: None)
    with pytest.raises(InvalidArgument, match="at least 1"):
        pool.resize(0)
    pool.shutdown()


def test_handlers_that_are_no_longer_needed_end():
    pool = RequestHandlerPool(2, PooledRequestChannel(lambda request: None), lambda error: None)
    last = pool._handlers[-1].thread
    pool.resize(1)
    last.join(PATIENCE)
    assert not last.is_alive()
    pool.shutdown()


def test_without_a_pool_there_is_nothing_to_resize():
    with echo_server() as server, pytest.raises(InvalidArgument, match="no pool of handlers"):
        server.server.resize_handlers(2)


def test_idle_time_is_that_of_one_handler_on_average():
    start = time.monotonic()
    with echo_server(pooled=True, num_io_threads=2) as server:
        (pool,) = server.server._pools
        until(lambda: pool.idle_seconds > 0.5)
        assert pool.idle_seconds <= time.monotonic() - start


def test_full_queue_stops_the_processor_and_the_requests_wait_in_their_sockets():
    with echo_server(pooled=True, num_io_threads=1, queued_max_requests=2) as server:
        clients = [Client(server.port) for _ in range(8)]
        for client in clients:
            client.send(b"hold on")
        until(lambda: server.handled == [b"hold on"] and len(server.server.data_requests) == 2)
        time.sleep(0.3)
        assert server.handled == [b"hold on"]
        assert len(server.server.data_requests) == 2
        server.release.set()
        assert [client.read() for client in clients] == [b"hold on"] * 8
        for client in clients:
            client.close()


def test_handler_that_fails_while_the_queue_is_full_ends_the_server_all_the_same():
    with echo_server(pooled=True, num_io_threads=1, queued_max_requests=1) as server:
        first = Client(server.port)
        first.send(b"hold on")
        until(lambda: server.handled)
        clients = [Client(server.port) for _ in range(5)]
        for client in clients:
            client.send(b"bug")
        time.sleep(0.1)
        server.release.set()
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()
        assert isinstance(server.error, RuntimeError)
        for client in [first, *clients]:
            client.close()
