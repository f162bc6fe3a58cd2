"""A processor owns connections: it reads requests from them, hands them to the request channel, and sends the answers.

Connections come from the acceptor. Each is read only while it is not muted (see
mute_state). All answers that are ready at the end of a pass go out in one write. An error on one connection closes
that connection only.

A processor belongs to one event loop and everything here runs on its thread, except `answer` and `refuse`, which hand
over when they are called from another: a handler of a pool, or a completed wait.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.net.channel import Channel
from milepost.net.event_loop import READ, WRITE, EventLoop
from milepost.net.mute_state import MuteEvent, MuteState
from milepost.net.request import Request

if TYPE_CHECKING:
    from milepost.net.request import Outgoing
    from milepost.net.request_channel import RequestChannel

logger = logging.getLogger("milepost.net")

RECEIVE_BUFFER = 1 << 20
MOST_WAITING_OUTPUT = 1 << 20
MUTED, NOT_MUTED = MuteState.MUTED, MuteState.NOT_MUTED
FRAME_SECONDS = 30.0
FRAME_BYTES_PER_SECOND = 64 << 10


class Processor:
    def __init__(
        self,
        number: int,
        loop: EventLoop,
        requests: RequestChannel,
        *,
        max_request_bytes: int = 100 << 20,
        max_idle_seconds: float = 600.0,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        between_requests: Callable[[], None] | None = None,
    ):
        self.number = number
        self.loop = loop
        self.requests = requests
        self.max_request_bytes = max_request_bytes
        self.max_idle_seconds = max_idle_seconds
        self.channels: OrderedDict[int, Channel] = OrderedDict()
        self._on_closed = on_closed
        self._between_requests = between_requests
        self._buffer = bytearray(RECEIVE_BUFFER)
        self._thread: int | None = None

    # Connections.

    def accept(self, sock: socket.socket, peer: str, listener: str) -> Channel:
        channel = Channel(sock, peer, listener, self, self.loop.monotonic())
        self.channels[channel.fd] = channel
        self.loop.register(channel.fd, READ, lambda events: self._on_ready(channel, events))
        return channel

    def close(self, channel: Channel, reason: str = "") -> None:
        if not channel.is_open:
            return
        channel.is_open = False
        if reason:
            logger.info("%s: connection closed: %s", channel.peer, reason)
        self.loop.unregister(channel.fd)
        del self.channels[channel.fd]
        channel.sock.close()
        self._on_closed(channel)

    def close_all(self) -> None:
        for channel in list(self.channels.values()):
            self.close(channel)

    def close_idle(self) -> None:
        """Close what has been silent for too long, and what has been sending one frame for too long."""
        now = self.loop.monotonic()
        for channel in list(self.channels.values()):
            if channel.deadline is not None and now > channel.deadline:
                self.close(channel, "a request was not complete in time")
            elif now - channel.last_active > self.max_idle_seconds and not channel.is_muted:
                self.close(channel, f"silent for {self.max_idle_seconds:.0f} seconds")

    def least_recently_used(self) -> Channel | None:
        return min(self.channels.values(), key=lambda channel: channel.last_active, default=None)

    # Reading.

    def _on_ready(self, channel: Channel, events: int) -> None:
        try:
            if events & WRITE:
                self._on_writable(channel)
            if events & ~WRITE and channel.is_open:
                self._on_readable(channel)
        except OSError as error:
            self.close(channel, str(error))
        except MilepostError as error:
            self.close(channel, str(error))

    def _on_readable(self, channel: Channel) -> None:
        if channel.is_muted or channel.out_bytes:
            # More is coming than may be read now: let it wait in the kernel until the answer has gone.
            self._want(channel, WRITE if channel.out_bytes else 0)
            return
        try:
            size = channel.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        if not size:
            self.close(channel)
            return
        channel.last_active = self.loop.monotonic()
        channel.feed(memoryview(self._buffer)[:size])
        self._advance(channel)

    def _advance(self, channel: Channel) -> None:
        """Hand on every whole request, one after the other, as long as each is answered at once."""
        channel.is_advancing = True
        try:
            while channel.is_open and not channel.is_muted and channel.out_bytes < MOST_WAITING_OUTPUT:
                frame = channel.next_frame(self.max_request_bytes)
                if frame is None:
                    break
                channel.mute = MUTED  # as the table says; looking it up costs more than the rest of this loop
                self.requests.submit(Request(channel, frame, self.loop.monotonic()))
                if self._between_requests is not None:
                    self._between_requests()
        finally:
            channel.is_advancing = False
        if not channel.is_open:
            return
        channel.keep_rest()
        self._set_deadline(channel)
        self._flush(channel)

    def _set_deadline(self, channel: Channel) -> None:
        if not channel.has_input or channel.is_muted:
            channel.deadline = None
        elif channel.deadline is None:
            channel.deadline = self.loop.monotonic() + FRAME_SECONDS + self.max_request_bytes / FRAME_BYTES_PER_SECOND

    # Writing.

    def answer(self, request: Request, outgoing: Sequence[Outgoing]) -> None:
        """Send the response and read the connection again. Safe from any thread."""
        if self._is_elsewhere():
            self.loop.post(lambda: self._answer(request, outgoing))
        else:
            self._answer(request, outgoing)

    def refuse(self, request: Request, reason: str) -> None:
        """Close the connection of a request that cannot be answered. Safe from any thread."""
        if self._is_elsewhere():
            self.loop.post(lambda: self.close(request.channel, reason))
        else:
            self.close(request.channel, reason)

    def runs_on_this_thread(self) -> None:
        self._thread = threading.get_ident()

    def _is_elsewhere(self) -> bool:
        return self._thread is not None and threading.get_ident() != self._thread

    def _answer(self, request: Request, outgoing: Sequence[Outgoing]) -> None:
        channel = request.channel
        if not channel.is_open:
            return
        request.answered_at = self.loop.monotonic()
        channel.queue(outgoing)
        if request.throttle_seconds > 0:
            channel.note(MuteEvent.THROTTLE_STARTED)
            self.loop.later(request.throttle_seconds, lambda: self._end_throttle(channel))
        if channel.mute is MUTED:
            channel.mute = NOT_MUTED
        else:
            channel.note(MuteEvent.ANSWER_SENT)
        self.requests.completed(request)
        if not channel.is_advancing:
            try:
                self._resume(channel)
            except (OSError, MilepostError) as error:
                self.close(channel, str(error))

    def _end_throttle(self, channel: Channel) -> None:
        if channel.is_open:
            channel.note(MuteEvent.THROTTLE_ENDED)
            self._resume(channel)

    def _resume(self, channel: Channel) -> None:
        """An answer came outside of `_advance`: send it, and go on with what was received meanwhile."""
        if channel.is_muted or not channel.has_input:
            self._flush(channel)
            return
        channel.resume_input()
        self._advance(channel)

    def _on_writable(self, channel: Channel) -> None:
        self._flush(channel)
        if channel.is_open and not channel.out_bytes and not channel.is_muted and channel.has_input:
            channel.resume_input()
            self._advance(channel)

    def _flush(self, channel: Channel) -> None:
        if channel.out_bytes and not channel.flush():
            self._want(channel, WRITE)
        elif not channel.is_muted:
            self._want(channel, READ)

    def _want(self, channel: Channel, events: int) -> None:
        if channel.interest != events:
            channel.interest = events
            self.loop.modify(channel.fd, events)
