"""An acceptor listens on one address and hands new connections to its processors, one after the other in turn.

It binds when it is made, so that the port is known and a port in use is noticed before anything else starts; it
accepts when its socket is ready. When the process is out of descriptors it pauses instead of spinning on a listening socket
that is always ready.
"""

from __future__ import annotations

import errno
import itertools
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from milepost.errors import PortUnavailable
from milepost.net.channel import Channel
from milepost.net.connection_limits import ConnectionLimits
from milepost.net.event_loop import READ, EventLoop
from milepost.net.processor import Processor

logger = logging.getLogger("milepost.net")

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PAUSE_SECONDS = 0.1
# A peer that acknowledges nothing for so long is gone.
USER_TIMEOUT_MS = 30_000
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))


class Acceptor:
    def __init__(
        self,
        listener: str,
        host: str,
        port: int,
        limits: ConnectionLimits,
        *,
        backlog: int = 50,
        send_buffer: int = 102_400,
        receive_buffer: int = 102_400,
    ):
        self.listener = listener
        self.limits = limits
        self._send_buffer = send_buffer
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if receive_buffer > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self._socket.bind((host, port))
            self._socket.listen(backlog)
        except OSError as error:
            self._socket.close()
            raise PortUnavailable(
                f"{host}:{port}: cannot listen there: {error.strerror}; choose another port (0 takes a free one) or stop what uses it"
            ) from error
        self._socket.setblocking(False)
        # Also called while the broker stops, when it does not listen there any more.
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    def start(
        self, loop: EventLoop, processors: Sequence[Processor], crowd: Callable[[], Iterable[Channel]] | None = None
    ) -> None:
        """`crowd`: the connections of which one may be closed for a new one. Without it there is no limit to keep."""
        self._loop = loop
        self._crowd = crowd
        self._turn = itertools.cycle(processors)
        loop.register(self._socket.fileno(), READ, self._on_ready)

    def _on_ready(self, events: int) -> None:
        while True:
            wait = self.limits.wait_seconds(self._loop.monotonic())
            if wait > 0:
                self._pause(wait)
                return
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    logger.warning("%s: %s; not accepting new connections", self.listener, error.strerror)
                    self._pause(PAUSE_SECONDS)
                    return
                continue  # the peer disconnected before it was accepted
            self._admit(sock, address[0], address[1])

    def _pause(self, seconds: float) -> None:
        """New connections wait in the kernel."""
        fd = self._socket.fileno()
        self._loop.modify(fd, 0)
        self._loop.later(seconds, lambda: self._loop.modify(fd, READ) if self._socket.fileno() >= 0 else None)

    def _admit(self, sock: socket.socket, host: str, port: int) -> None:
        if not self.limits.admits(host):
            logger.info("%s: closed at once: %d connections from there are the most allowed", host, self.limits.open[host])
            sock.close()
            return
        if self.limits.is_full:
            self._make_room(host)
        with suppress(OSError):  # gone already: the processor will notice
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
            for option, value in KEEP_ALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            if self._send_buffer > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        self.limits.opened(host)
        processor = next(self._turn)
        if processor.loop is self._loop:
            processor.accept(sock, f"{host}:{port}", self.listener)
        else:
            processor.loop.post(partial(processor.accept, sock, f"{host}:{port}", self.listener))

    def _make_room(self, newcomer: str) -> None:
        """At the cost of the address that has most connections; the newcomer's counts one more."""
        channels = list(self._crowd()) if self._crowd is not None else []
        if channels:
            open_from = Counter(channel.host for channel in channels)
            open_from[newcomer] += 1
            host, _ = max(open_from.items(), key=lambda item: (item[1], item[0] == newcomer))
            theirs = [channel for channel in channels if channel.host == host] or channels
            oldest = min(theirs, key=lambda channel: channel.recency)
            oldest.processor.close(oldest, "closed to make room for a new connection")

    def stop(self) -> None:
        """Take no more connections; those that are there go on."""
        if self._socket.fileno() >= 0:
            if hasattr(self, "_loop"):
                self._loop.unregister(self._socket.fileno())
            self._socket.close()
