"""A small HTTP/1.1 server on an event loop: for machines that read metrics and health, not for the world.

    GET, HEAD        a path that is known          200, or what its page says
                     another path                  404
    other methods                                  405
    a request with a body, or that is no HTTP      400, and the connection ends
    more than 8 KB before the empty line           431, and the connection ends
    HTTP/2, HTTP/3                                 505, and the connection ends

Connections are kept for further requests, which may be sent ahead; they are answered one after the other. A client that is slow to
ask, slow to read, or silent is closed after some seconds; beyond a handful the one that has been quiet longest makes room for a new
one. So whatever a client does costs little, and the loop waits for none.

A page gives its body later if it likes: it is called with a function that takes the body. One that takes long to make is made
in slices, between other work of the loop. One that raises is 500 and a line in the log.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from milepost.errors import PortUnavailable
from milepost.net.event_loop import READ, WRITE, EventLoop, Timer

logger = logging.getLogger("milepost.net")

MOST_CONNECTIONS = 16
MOST_HEAD_BYTES = 8192
REQUEST_SECONDS = 10.0
IDLE_SECONDS = 90.0
PAUSE_SECONDS = 0.1
MOST_READS_AT_THE_END = 16
SEND_SECONDS = 30.0
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    body: bytes
    content_type: str = PLAIN
    status: int = 200


# What is wrong is in the log, and does not concern the client.
FAILED = Page(b"this page could not be made; the log says why\n", status=500)
Give = Callable[[Page], None]
MakePage = Callable[[Give], None]


class HttpServer:
    def __init__(self, host: str, port: int, pages: Mapping[str, MakePage]):
        """Bound at once, so that a port in use is noticed; served from `start` on."""
        self.pages = pages
        self._connections: dict[int, HttpConnection] = {}
        self._loop: EventLoop | None = None
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(MOST_CONNECTIONS)
        except OSError as error:
            self._socket.close()
            raise PortUnavailable(
                f"{host}:{port}: cannot serve HTTP there: {error.strerror}; choose another port (0 takes a free one) or stop what uses it"
            ) from error
        self._socket.setblocking(False)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    def start(self, loop: EventLoop) -> None:
        self._loop = loop
        loop.register(self._socket.fileno(), READ, self._on_ready)

    def _on_ready(self, events: int) -> None:
        assert self._loop is not None
        try:
            sock, _ = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:
            # Nobody is there any more, or no descriptor is left: then the socket stays ready, and is left alone for a moment.
            fd, loop = self._socket.fileno(), self._loop
            loop.modify(fd, 0)
            loop.later(PAUSE_SECONDS, lambda: loop.modify(fd, READ) if self._socket.fileno() >= 0 else None)
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            # A health check is always answered: the longest idle connection is closed, and one that waits for a page only when all do.
            min(self._connections.values(), key=lambda connection: (connection.is_busy, connection.last_active)).close()
        sock.setblocking(False)
        self._connections[sock.fileno()] = HttpConnection(sock, self._loop, self.pages, self._connections)

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()
        if self._loop is not None:
            self._loop.unregister(self._socket.fileno())
        self._socket.close()


class HttpConnection:
    def __init__(
        self, sock: socket.socket, loop: EventLoop, pages: Mapping[str, MakePage], connections: dict[int, HttpConnection]
    ):
        self._socket = sock
        self._fd = sock.fileno()
        self._loop = loop
        self._pages = pages
        self._connections = connections
        self._received = bytearray()
        self._out = memoryview(b"")
        self.is_busy = False
        self._is_last = False
        self._is_open = True
        self._interest = READ
        self.last_active = loop.monotonic()
        self._timer: Timer | None = None
        loop.register(self._fd, READ, self._on_ready)
        self._give_time(REQUEST_SECONDS)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            if self._timer is not None:
                self._timer.cancel()
            self._loop.unregister(self._fd)
            self._socket.close()
            del self._connections[self._fd]

    def _give_time(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.later(seconds, self.close)

    def _want(self, events: int) -> None:
        if self._interest != events:
            self._interest = events
            self._loop.modify(self._fd, events)

    def _on_ready(self, events: int) -> None:
        if self.is_busy and not self._out:
            self.close()  # nothing was asked for: it is gone
            return
        try:
            if self._out:
                self._send()
            else:
                self._receive()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    # In.

    def _receive(self) -> None:
        received = self._socket.recv(MOST_HEAD_BYTES)
        if not received:
            self.close()
            return
        self.last_active = self._loop.monotonic()
        if not self._received:
            self._give_time(REQUEST_SECONDS)
        self._received += received
        self._next_request()

    def _next_request(self) -> None:
        # Empty lines in front of a request are passed over, as the standard asks for.
        while self._received[:2] == b"\r\n":
            del self._received[:2]
        end = self._received.find(b"\r\n\r\n")
        if end > MOST_HEAD_BYTES or (end < 0 and len(self._received) > MOST_HEAD_BYTES):
            self._refuse(431)
        elif end >= 0:
            head = bytes(self._received[:end])
            del self._received[: end + 4]
            self._take(head)

    def _take(self, head: bytes) -> None:
        request_line, *fields = head.split(b"\r\n")
        words = request_line.split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/"):
            self._refuse(400)
            return
        method, target, version = words
        if version not in (b"HTTP/1.1", b"HTTP/1.0"):
            self._refuse(505)
            return
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in (field.partition(b":") for field in fields)}
        if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
            self._refuse(400)  # its body would be taken for the next request
            return
        connection = headers.get(b"connection", b"")
        self._is_last = b"close" in connection or (version == b"HTTP/1.0" and b"keep-alive" not in connection)
        if method not in (b"GET", b"HEAD"):
            self._answer(Page(b"only GET and HEAD are served here\n", status=405), with_body=True)
            return
        make = self._pages.get(target.partition(b"?")[0].decode("latin-1"))
        if make is None:
            known = ", ".join(self._pages)
            self._answer(Page(f"there is nothing here; there is {known}\n".encode(), status=404), with_body=method == b"GET")
            return
        self.is_busy = True
        self._want(0)
        self._give_time(SEND_SECONDS)

        def give(page: Page) -> None:
            self._answer(page, with_body=method == b"GET")

        try:
            make(give)
        except Exception:
            logger.exception("%s could not be made", target.decode("latin-1"))
            give(FAILED)

    def _refuse(self, status: int) -> None:
        self._is_last = True
        self._answer(Page(f"{REASONS[status].lower()}\n".encode(), status=status), with_body=True)

    # Out.

    def _answer(self, page: Page, *, with_body: bool) -> None:
        if not self._is_open:
            return
        lines = [
            f"HTTP/1.1 {page.status} {REASONS[page.status]}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(["Allow: GET, HEAD"] if page.status == 405 else []),
            *(["Connection: close"] if self._is_last else []),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._out = memoryview(head + page.body if with_body else head)
        self.is_busy = True
        self._give_time(SEND_SECONDS)
        try:
            self._send()
        except BlockingIOError:
            self._want(WRITE)
        except OSError:
            self.close()

    def _send(self) -> None:
        while self._out:
            sent = self._socket.send(self._out)
            self._out = self._out[sent:]
        self.is_busy = False
        if self._is_last:
            # The client sees the reason only if nothing it sent is left unread when the connection ends.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                for _ in range(MOST_READS_AT_THE_END):
                    if not self._socket.recv(65536):
                        break
            self.close()
            return
        self._want(READ)
        self._give_time(REQUEST_SECONDS if self._received else IDLE_SECONDS)
        # From the loop and not from here: a client that sends a thousand requests ahead gets them answered one by one all the same.
        if self._received:
            self._loop.later(0, self._go_on)

    def _go_on(self) -> None:
        if self._is_open and not self.is_busy:
            self._next_request()
