"""A server for the tests: it answers each frame with the same frame, or does what the frame's first word says."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from milepost.config.listeners import Listener
from milepost.net.request import Request
from milepost.net.request_metrics import UNNAMED, RequestMeter
from milepost.net.socket_server import ServerSettings, SocketServer
from tests.waiting import PATIENCE

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 0)


class EchoServer:
    """What the first word of a frame asks for:

    later      answered after 50 ms     silent   not answered at all      slow   blocks the handler for 100 ms
    throttled N  answered, then N seconds of pause   close   the connection ends   bug   the handler raises
    hold       answered when `release` is set; it blocks the handler      big N  answered with N bytes
    aside      let go, answered after 50 ms   hasty  let go, answered after 10 ms
    box        answered when the one before it has been, by whoever answers that one
    """

    def __init__(self, *, control: bool = False, meter: RequestMeter = UNNAMED, **settings):
        self.handled: list[bytes] = []
        self.passes: list[float] = []
        """When the pass of the loop began in which each was handled."""
        self.box: list[tuple[Request, bytes]] = []
        self.log: list[str] = []
        self.meter = meter
        self.release = threading.Event()
        self.is_stopped = False
        self.server = SocketServer(
            [LISTENER],
            self.handle,
            ServerSettings(**settings),
            control_listener=Listener("CONTROLLER", "127.0.0.1", 0) if control else None,
        )
        self.server.start()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.server.run()
        except BaseException as error:
            self.error = error

    def empty_box(self) -> None:
        while self.box:
            self.answer(*self.box[0])
            del self.box[0]

    def handle(self, request: Request) -> None:
        frame = bytes(request.frame)
        self.handled.append(frame)
        self.passes.append(self.server.loop.now)
        self.log.append(f"handled {frame[:20].decode(errors='replace')}")
        request.meter = self.meter
        word = frame.split(b" ")[0]
        if word == b"silent":
            request.no_response()
        elif word == b"close":
            request.close("asked to")
        elif word == b"later":
            request.handled_at = self.server.loop.monotonic()
            self.server.loop.later(0.05, lambda: self.answer(request, frame))
        elif word in (b"aside", b"hasty"):
            self.server.loop.later(0.05 if word == b"aside" else 0.01, lambda: self.answer(request, frame))
            request.read_ahead()
        elif word == b"box":
            self.box.append((request, frame))
            if len(self.box) == 1:
                self.server.loop.post(self.empty_box)
        elif word == b"throttled":
            request.throttle_seconds = float(frame.split(b" ")[1])
            self.answer(request, frame)
        elif word == b"bug":
            raise RuntimeError("a handler let this through")
        elif word == b"big":
            self.answer(request, b"x" * int(frame.split(b" ")[1]))
        else:
            if word == b"slow":
                time.sleep(0.1)
            elif word == b"hold":
                assert self.release.wait(PATIENCE)
            self.answer(request, frame)

    def answer(self, request: Request, frame: bytes) -> None:
        self.log.append(f"answered {frame[:20].decode(errors='replace')}")
        request.send([struct.pack(">i", len(frame)), frame])

    @property
    def port(self) -> int:
        return self.server.acceptors[0].address[1]

    @property
    def control_port(self) -> int:
        assert self.server.control_acceptor is not None
        return self.server.control_acceptor.address[1]

    def stop(self) -> None:
        if self.is_stopped:
            return
        self.is_stopped = True
        self.server.stop()
        self.thread.join(PATIENCE)
        self.server.shutdown()


@contextmanager
def echo_server(**settings) -> Iterator[EchoServer]:
    server = EchoServer(**settings)
    try:
        yield server
    finally:
        server.stop()


class Client:
    """A client that sends frames and reads them back."""

    def __init__(self, port: int, receive_buffer: int | None = None, address: str = ""):
        self.socket = socket.socket()
        self.socket.bind((address, 0))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    def read(self) -> bytes | None:
        """The next frame, or None when the server closed the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def ask(self, frame: bytes) -> bytes | None:
        self.send(frame)
        return self.read()

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        # A test that failed has not come to closing it; its warning must not fail another test.
        self.close()
