"""What a server says about itself."""

from __future__ import annotations

import struct

import pytest

from milepost.metrics.registry import Registry
from tests.net.echo_server import Client, EchoServer, echo_server
from tests.waiting import until

modes = pytest.mark.parametrize("pooled", [False, True], ids=["inline", "pooled"])


def metrics_of(server: EchoServer) -> dict[str, dict[tuple[str, ...], float]]:
    registry = Registry()
    server.server.metrics.register(registry)
    return {
        metric.name.name: {tuple(value for _, value in labels): value for labels, value in metric.samples()}
        for metric in registry
    }


def test_connections_are_counted_by_listener_and_processor():
    with echo_server(num_network_threads=2) as server:
        clients = [Client(server.port) for _ in range(3)]
        for client in clients:
            client.ask(b"hello")
        clients.pop().close()
        until(lambda: sum(processor.closed for processor in server.server.processors) >= 1)
        found = metrics_of(server)
        assert found["connection-count"] == {("PLAINTEXT", "0"): 1, ("PLAINTEXT", "1"): 1}
        assert found["connection-creation-total"] == {("PLAINTEXT", "0"): 2, ("PLAINTEXT", "1"): 1}
        assert found["connection-close-total"] == {("PLAINTEXT", "0"): 1, ("PLAINTEXT", "1"): 0}
        assert found["connection-creation-rate"]["PLAINTEXT", "0"] > 0
        for client in clients:
            client.close()


@modes
def test_server_that_has_nothing_to_do_is_idle(pooled):
    with echo_server(pooled=pooled) as server:
        client = Client(server.port)

        def shares() -> list[float]:
            # Time is counted as waited when something has come.
            client.ask(b"hello")
            found = metrics_of(server)
            return [found["NetworkProcessorAvgIdlePercent"][()], found["RequestHandlerAvgIdlePercent"][()]]

        until(lambda: min(shares()) > 0.5, pause=0.4)
        assert max(shares()) <= 1.0
        client.close()


def test_handler_on_the_network_thread_keeps_it_from_being_idle():
    with echo_server() as server:
        client = Client(server.port)
        until(lambda: client.ask(b"slow") and metrics_of(server)["NetworkProcessorAvgIdlePercent"][()] < 0.5, pause=0)
        # A pass is counted when it is over, after its answers have gone out: this is answered in a later one.
        client.ask(b"hello")
        found = metrics_of(server)
        assert found["event_loop_longest_pass_seconds"][()] >= 0.1
        client.close()


def test_requests_that_wait_for_a_handler_are_the_request_queue():
    with echo_server(pooled=True, num_io_threads=1) as server:
        clients = [Client(server.port) for _ in range(4)]
        for client in clients:
            client.send(b"hold on")
        until(lambda: server.handled and len(server.server.data_requests) >= 3)
        assert metrics_of(server)["RequestQueueSize"] == {(): 3}
        server.release.set()
        for client in clients:
            assert client.read() == b"hold on"
            client.close()


def test_answers_that_nobody_takes_are_the_response_queue():
    with echo_server() as server:
        client = Client(server.port, receive_buffer=4096)
        client.send(b"big 5000000")
        until(lambda: metrics_of(server)["ResponseQueueSize"] == {(): 1})
        assert len(client.read() or b"") == 5_000_000
        client.close()


def test_control_plane_has_a_queue_of_its_own():
    with echo_server(control=True) as server:
        assert metrics_of(server)["ControlPlaneRequestQueueSize"] == {(): 0}
    with echo_server() as server:
        assert "ControlPlaneRequestQueueSize" not in metrics_of(server)


def test_memory_that_is_used_up_shows():
    with echo_server(queued_max_request_bytes=1000) as server:
        assert metrics_of(server)["MemoryPoolAvailable"] == {(): 1000}
        first, second = Client(server.port), Client(server.port)
        for client, used in ((first, 604), (second, 1208)):
            client.socket.sendall(struct.pack(">i", 3000) + b"x" * 600)
            until(lambda used=used: server.server.memory.used == used)
        first.socket.sendall(b"x")
        until(lambda: server.server.memory.used == 1209)
        second.socket.sendall(b"x")
        until(lambda: metrics_of(server)["MemoryPoolDepletedTimeTotal"][()])
        found = metrics_of(server)
        assert (found["MemoryPoolUsed"][()], found["MemoryPoolAvailable"][()]) == (1209, -209)
        assert 0 < found["MemoryPoolAvgDepletedPercent"][()] <= 1
        first.close()
        second.close()


def test_memory_without_a_limit_is_never_used_up():
    with echo_server() as server:
        found = metrics_of(server)
        assert found["MemoryPoolAvgDepletedPercent"] == found["MemoryPoolDepletedTimeTotal"] == {(): 0.0}
        assert "MemoryPoolUsed" not in found
