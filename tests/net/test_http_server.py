"""The small HTTP server: what it answers, what it refuses, and that no client can hurt it."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from milepost.errors import PortUnavailable
from milepost.net import http_server
from milepost.net.event_loop import EventLoop
from milepost.net.http_server import HttpServer, Page
from tests.waiting import PATIENCE, until


class Served:
    """A server on a loop of its own. `/later` gives its page after 50 ms, `/large` gives 5 MB."""

    def __init__(self) -> None:
        self.loop = EventLoop()
        pages = {
            "/page": lambda give: give(Page(b"the page\n")),
            "/later": lambda give: self.loop.later(0.05, lambda: give(Page(b"at last\n"))),
            "/large": lambda give: give(Page(b"x" * 5_000_000, "application/octet-stream")),
            "/ill": lambda give: give(Page(b"not well\n", status=503)),
            "/never": lambda give: None,
            "/broken": lambda give: 1 / 0,
        }
        self.server = HttpServer("127.0.0.1", 0, pages)
        self.server.start(self.loop)
        self.thread = threading.Thread(target=self.loop.run, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return self.server.address[1]

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join(PATIENCE)
        self.server.close()
        self.loop.close()

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, data: bytes) -> bytes:
        """Everything that comes back until the server ends the connection."""
        with self.open() as sock:
            sock.sendall(data)
            return read_all(sock)

    @property
    def connections(self) -> int:
        return len(self.server._connections)


def read_all(sock: socket.socket) -> bytes:
    found = b""
    while piece := sock.recv(65536):
        found += piece
    return found


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


def test_page_is_answered_with_its_type_and_length(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.request("GET", "/page")
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"the page\n")
    assert response.getheader("Content-Type") == "text/plain; charset=utf-8"
    assert response.getheader("Content-Length") == "9"
    connection.close()


def test_connection_serves_one_request_after_the_other(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    for path, expected in (("/page", b"the page\n"), ("/later", b"at last\n"), ("/page?with=query", b"the page\n")):
        connection.request("GET", path)
        assert connection.getresponse().read() == expected
    assert served.connections == 1
    connection.close()


def test_requests_that_are_sent_ahead_are_answered_in_order(served):
    ask = b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /page HTTP/1.1\r\n\r\nGET /page HTTP/1.1\r\nConnection: close\r\n\r\n"
    answer = served.ask(ask)
    assert [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"at last\n",
        b"the page\n",
        b"the page\n",
    ]


def test_head_gets_the_head_only(served):
    answer = served.ask(b"HEAD /page HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 9" in answer and answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"GET /pag HTTP/1.1", b"404 Not Found"),
        (b"GET /page/../page HTTP/1.1", b"404 Not Found"),
        (b"GET /ill HTTP/1.1", b"503 Service Unavailable"),
        (b"POST /page HTTP/1.1", b"405 Method Not Allowed"),
        (b"DELETE / HTTP/1.1", b"405 Method Not Allowed"),
        (b"\xff\xfe /page HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /page HTTP/2.0", b"505 HTTP Version Not Supported"),
        (b"GET /page", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00", b"400 Bad Request"),
    ],
)
def test_what_is_not_there_or_not_understood_has_a_status(served, request_line, status):
    answer = served.ask(request_line + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_other_methods_are_told_which_there_are(served):
    assert b"\r\nAllow: GET, HEAD\r\n" in served.ask(b"PUT /page HTTP/1.1\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("field", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_body_is_not_taken_for_the_next_request(served, field):
    answer = served.ask(b"GET /page HTTP/1.1\r\n" + field + b"\r\n\r\nGET /page HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1


def test_http_1_0_ends_with_its_answer(served):
    assert served.ask(b"GET /page HTTP/1.0\r\n\r\n").endswith(b"the page\n")


def test_head_that_does_not_end_is_refused_when_it_is_too_long(served):
    answer = served.ask(b"GET /page HTTP/1.1\r\n" + b"X-Filler: " + b"x" * 20_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_large_page_reaches_a_client_that_reads_slowly(served):
    with served.open() as sock:
        sock.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        found = 0
        while piece := sock.recv(100_000):
            found += piece.count(b"x")
            time.sleep(0.001)
    assert found == 5_000_000


# Clients that do not behave.


def until_closed(sock: socket.socket) -> None:
    sock.settimeout(PATIENCE)
    with suppress(ConnectionResetError):
        assert read_all(sock) == b""


def test_client_that_does_not_finish_its_request_is_closed(served, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.2)
    with served.open() as sock:
        sock.sendall(b"GET /pa")
        until_closed(sock)


def test_client_that_asks_for_nothing_more_is_closed(served, monkeypatch):
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.2)
    with served.open() as sock:
        sock.sendall(b"GET /page HTTP/1.1\r\n\r\n")
        assert read_all(sock).endswith(b"the page\n")


def test_client_that_does_not_read_is_closed(served, monkeypatch):
    monkeypatch.setattr(http_server, "SEND_SECONDS", 0.2)
    with served.open() as sock:
        until(lambda: served.connections)
        sock.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        until(lambda: not served.connections)


def test_page_that_is_never_given_ends_the_connection(served, monkeypatch):
    monkeypatch.setattr(http_server, "SEND_SECONDS", 0.2)
    with served.open() as sock:
        sock.sendall(b"GET /never HTTP/1.1\r\n\r\n")
        until_closed(sock)


def test_client_that_leaves_before_its_page_is_there_changes_nothing(served):
    with served.open() as sock:
        sock.sendall(b"GET /later HTTP/1.1\r\n\r\n")
        time.sleep(0.01)
    time.sleep(0.1)
    assert served.ask(b"GET /page HTTP/1.0\r\n\r\n").endswith(b"the page\n")
    until(lambda: not served.connections)


def test_beyond_a_handful_of_connections_the_one_quiet_longest_makes_room(served):
    socks = [served.open() for _ in range(http_server.MOST_CONNECTIONS)]
    until(lambda: served.connections >= http_server.MOST_CONNECTIONS)
    assert served.ask(b"GET /page HTTP/1.0\r\n\r\n").endswith(b"the page\n"), "a health check is always answered"
    until_closed(socks[0])
    for sock in socks:
        sock.close()
    until(lambda: not served.connections)
    assert served.ask(b"GET /page HTTP/1.0\r\n\r\n").endswith(b"the page\n")


def test_page_that_raises_is_told_apart_and_the_server_goes_on(served, caplog):
    answer = served.ask(b"GET /broken HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ") and b"ZeroDivision" not in answer
    assert "/broken could not be made" in caplog.text
    assert served.ask(b"GET /page HTTP/1.0\r\n\r\n").endswith(b"the page\n")


def test_port_in_use_is_one_sentence(served):
    with pytest.raises(PortUnavailable, match=f"127.0.0.1:{served.port}: cannot serve HTTP there: Address already in use"):
        HttpServer("127.0.0.1", served.port, {})
