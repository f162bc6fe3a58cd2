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
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.net.channel import Channel, PendingRequest
from milepost.net.event_loop import HANGUP, READ, WRITE, EventLoop
from milepost.net.frame_input import KEPT_AS_COPY, ReceiveBuffers
from milepost.net.mute_state import MuteEvent, MuteState
from milepost.net.output_budget import OutputBudget
from milepost.net.paused_channels import PausedChannels
from milepost.net.refusals import Refusals
from milepost.net.request import Request
from milepost.net.request_channel import PooledRequestChannel, RequestChannel
from milepost.net.slow_peers import reason_to_close

if TYPE_CHECKING:
    from milepost.net.fast_path import FastPath
    from milepost.net.outgoing import Outgoing

logger = logging.getLogger("milepost.net")

MakeChannel = Callable[..., Channel]
"""Of a socket, its peer, the name of the listener, the processor, the time and the receive buffers."""

MOST_WAITING_OUTPUT = 1 << 20
PASS_SECONDS = 0.02
"""Requests that were received together are handled together, but no longer than so: then others have their turn."""
MUTED, NOT_MUTED = MuteState.MUTED, MuteState.NOT_MUTED
NO_BYTES = memoryview(b"")


class Processor:
    def __init__(
        self,
        number: int,
        loop: EventLoop,
        requests: RequestChannel,
        *,
        listener: str = "",
        max_request_bytes: int = 100 << 20,
        max_idle_seconds: float = 600.0,
        make_channel: MakeChannel = Channel,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        between_requests: Callable[[], None] | None = None,
        refusals: Refusals | None = None,
        output: OutputBudget | None = None,
    ):
        self.number = number
        self.listener = listener
        self.loop = loop
        self.requests = requests
        self.max_request_bytes = max_request_bytes
        self.max_idle_seconds = max_idle_seconds
        self.channels: OrderedDict[int, Channel] = OrderedDict()
        self.refusals = refusals or Refusals(loop.monotonic)
        self.output = output or OutputBudget()
        self._make_channel = make_channel
        self._on_closed = on_closed
        self._between_requests = between_requests
        self._buffers = ReceiveBuffers()
        self._memory = requests.memory
        self._paused = PausedChannels(self.loop.post, self._resume_paused)
        self.opened = self.closed = 0
        self.is_reading = True
        # Handlers run on threads of their own.
        self.is_pooled = isinstance(requests, PooledRequestChannel)

    # Connections.

    def accept(self, sock: socket.socket, peer: str, listener: str) -> Channel:
        channel: Channel = self._make_channel(sock, peer, listener, self, self.loop.monotonic(), self._buffers)
        if channel.login is None:
            channel.max_request_bytes = self.max_request_bytes
        self.opened += 1
        self.channels[channel.fd] = channel
        self.loop.register(channel.fd, READ, partial(self._on_ready, channel))
        return channel

    def close(self, channel: Channel, reason: str = "") -> None:
        if not channel.is_open:
            return
        channel.is_open = False
        if reason:
            logger.info("%s: connection closed: %s", channel.peer, reason)
        if channel.out_bytes:
            # The answers to requests before the one that is closed on.
            with suppress(OSError):
                channel.flush()
        self.loop.unregister(channel.fd)
        del self.channels[channel.fd]
        channel.drop_input()
        channel.drop_output()
        channel.sock.close()
        self.closed += 1
        if channel.answered:
            channel.count_answered(self.loop.monotonic())
        if self._memory is not None:
            self._memory.hold(channel, 0)
            self._memory.leave(channel)
        self._on_closed(channel)

    def close_all(self) -> None:
        for channel in list(self.channels.values()):
            self.close(channel)

    def stop_reading(self) -> None:
        """Requests that are in hand are answered, and no more are taken."""
        self.is_reading = False
        for channel in self.channels.values():
            if channel.interest & READ:
                self._want(channel, 0)

    @property
    def is_sending(self) -> bool:
        return any(channel.out_bytes for channel in self.channels.values())

    def close_idle(self) -> None:
        """Close what has been silent for too long, has been sending one frame for too long, or does not read its answers."""
        now = self.loop.monotonic()
        for channel in list(self.channels.values()):
            reason = reason_to_close(channel, now, self.max_idle_seconds)
            if reason is not None:
                self.close(channel, reason)

    # Reading.

    def _on_ready(self, channel: Channel, events: int) -> None:
        if events & HANGUP and (channel.is_muted or channel.out_bytes or channel.is_paused_for_memory):
            # Nobody is left to answer. The kernel says so whatever we asked for, again and again until the socket is closed.
            self.close(channel)
            return
        try:
            if events & WRITE:
                self._on_writable(channel)
            if events & ~WRITE and channel.is_open:
                self._on_readable(channel)
        except OSError as error:
            self.close(channel, str(error))
        except MilepostError as error:
            self.expel(channel, str(error))

    def _on_readable(self, channel: Channel) -> None:
        if channel.mute is not NOT_MUTED or channel.out_bytes or channel.is_put_off:
            # More is coming than may be read now: let it wait in the kernel until the answer has gone.
            self._want(channel, WRITE if channel.out_bytes else 0)
            return
        try:
            if self._memory is None or self._memory.available > 0:
                size = channel.receive()
            elif not channel.reserved:
                size = channel.receive(KEPT_AS_COPY - 1)
            elif self._memory.refuses(channel, self._paused.memory_available):
                self._paused.add(channel)
                self._want(channel, 0)
                return
            else:
                # No further than the end of this request: the next one waits for its turn.
                size = channel.receive(channel.missing_bytes)
        except BlockingIOError:
            return
        if not size:
            self.close(channel)
            return
        channel.last_active = self.loop.now
        self._advance(channel)

    def _advance(self, channel: Channel) -> None:
        """Hand on every whole request, one after the other, as long as each is answered at once."""
        while self._advance_until_full(channel):
            # So many responses that they had to be sent first, and they were: on with the requests behind them.
            channel.resume_input()

    def _advance_until_full(self, channel: Channel) -> bool:
        """Whether there may be more to hand on."""
        channel.is_advancing = True
        now, is_full, is_late = self.loop.monotonic(), False, False
        until = channel.turn_since(self.loop.now, now) + PASS_SECONDS
        try:
            while channel.is_open and channel.mute is NOT_MUTED:
                if channel.out_bytes >= MOST_WAITING_OUTPUT:
                    is_full = True
                    break
                if now > until:
                    is_late = True
                    break
                received_at = now
                now = 0.0 if channel.fast_path is None else self._take_fast_path(channel, channel.fast_path, received_at)
                if not now:
                    frame = channel.next_frame(channel.max_request_bytes)
                    if frame is None:
                        break
                    channel.mute = MUTED  # as the table says; looking it up costs more than the rest of this loop
                    request = Request(channel, frame, received_at)
                    self.requests.submit(request)
                    # What was answered by now was answered a moment ago: one look at the clock serves both.
                    now = request.answered_at or self.loop.monotonic()
                if self._between_requests is not None:
                    self._between_requests()
                    now = self.loop.monotonic()
                if not channel.has_frame(self.max_request_bytes):
                    break  # nearly always: no second look at the fast path for what is not there
        finally:
            channel.is_advancing = False
        if not channel.is_open:
            return False
        if channel.has_taken:
            channel.frame_since = None
            if self._memory is not None and not self.is_pooled:
                self._memory.leave(channel)
        channel.keep_rest()
        if is_late and not channel.is_put_off:
            channel.is_put_off = True
            self.loop.next_pass(partial(self._send, channel))
        channel.note_frame(self.loop.now)
        if self._memory is not None and (channel.reserved or channel.has_input):
            self._memory.hold(channel, channel.received_bytes)
        self._flush(channel)
        return is_full and not channel.out_bytes and channel.has_input

    def _take_fast_path(self, channel: Channel, fast_path: FastPath, received_at: float) -> float:
        """When the requests that it took were handled; 0 if it took none."""
        view, start, end = channel.waiting_input
        if start == end or self.is_pooled:
            return 0.0
        # One at a time where others have their turn between two requests, or where responses to earlier ones are still pending.
        is_alone = self._between_requests is not None or bool(channel.pending_responses)
        taken = fast_path.take(view, start, end, self.max_request_bytes, is_alone)
        if taken is None:
            return 0.0
        channel.skip_input(taken.end)
        now = self.loop.monotonic()
        if taken.requests:
            handled_at = now
            if not taken.answers or channel.send_now(taken.answers):
                now = self.loop.monotonic()
                taken.meter.count_pipelined(taken.requests, taken.size, received_at, handled_at, now)
            else:
                taken.wait(received_at, handled_at)
                channel.answered.append(taken)
        if taken.last is not None:
            channel.mute = MUTED
            request = Request(channel, NO_BYTES, received_at)
            request.size = taken.last.size
            taken.last.finish(request)
            now = request.answered_at or now
        return now

    def _resume_paused(self, channel: Channel) -> None:
        """There is memory again. Read from here, whoever waited longest first: by the time the kernel reports them, the connection that
        released the memory may have taken it again."""
        if channel.is_open:
            channel.restart_frame(self.loop.now)
            self._want(channel, READ)
            self._on_ready(channel, READ)

    # Writing.

    def answer(self, request: PendingRequest, outgoing: Sequence[Outgoing]) -> None:
        """Send the response and read the connection again. Safe from any thread."""
        request.answered_at = request.taken_at = self.loop.monotonic()
        if self.is_pooled:
            # Also from the loop's own thread: the answering code may hold what a handler waits for, and the next request of
            # the connection may have to wait for a handler.
            self.loop.post(lambda: self._take(request, outgoing))
        else:
            self._answer(request, outgoing)

    def refuse(self, request: PendingRequest, reason: str) -> None:
        """Close the connection of a request that cannot be answered. Safe from any thread."""
        request.answered_at = request.taken_at = self.loop.monotonic()
        if self.is_pooled:
            self.loop.post(lambda: self._refuse_request(request, reason))
        else:
            self._refuse_request(request, reason)

    def _refuse_request(self, request: PendingRequest, reason: str) -> None:
        request.channel.answered.append(request)
        self.expel(request.channel, reason)

    def expel(self, channel: Channel, reason: str) -> None:
        """Close a connection for what its peer did. That is counted, and told."""
        if channel.is_open:
            self.refusals.note(channel.peer, reason)
            self.close(channel)

    def _take(self, request: PendingRequest, outgoing: Sequence[Outgoing]) -> None:
        request.taken_at = self.loop.monotonic()
        self._answer(request, outgoing)
        if self._memory is not None:
            # Not before: while it waited for a handler its bytes were here.
            self._memory.leave(request.channel)

    def _answer(self, request: PendingRequest, outgoing: Sequence[Outgoing]) -> None:
        channel = request.channel
        if not channel.is_open:
            return
        request.frame = NO_BYTES
        if channel.pending_responses:
            was_empty = not channel.out_bytes
            for each, pieces in channel.pending_responses.answered(request, outgoing):
                self._queue(channel, each, pieces)
            if channel.pending_responses and not channel.is_advancing:
                # Requests read ahead of together are mostly answered together: one write at the end of this pass.
                if was_empty and channel.out_bytes:
                    self.loop.post(lambda: self._send(channel))
                return
        else:
            self._queue(channel, request, outgoing)
        if not channel.is_advancing:
            self._send(channel)

    def _send(self, channel: Channel) -> None:
        """Outside of `_advance`: answers came, a pause is over, or it is the turn of requests that are here already."""
        channel.is_put_off = False
        if not channel.is_open or channel.is_advancing:
            return
        try:
            self._resume(channel)
        except OSError as error:
            self.close(channel, str(error))
        except MilepostError as error:
            self.expel(channel, str(error))

    def _queue(self, channel: Channel, request: PendingRequest, outgoing: Sequence[Outgoing]) -> None:
        channel.answered.append(request)
        channel.queue(outgoing)
        if request.is_read_ahead:
            return  # the connection was not muted because of it
        if request.throttle_seconds > 0:
            channel.note(MuteEvent.THROTTLE_STARTED)
            self.loop.later(request.throttle_seconds, lambda: self._end_throttle(channel))
        if channel.mute is MUTED:
            channel.mute = NOT_MUTED
        else:
            channel.note(MuteEvent.ANSWER_SENT)

    def _end_throttle(self, channel: Channel) -> None:
        if channel.is_open:
            channel.note(MuteEvent.THROTTLE_ENDED)
            self._send(channel)

    def _resume(self, channel: Channel) -> None:
        """Send what there is, and go on with what was received meanwhile."""
        if channel.is_muted or not channel.has_input or not self.is_reading:
            self._flush(channel)
            return
        channel.resume_input()
        self._advance(channel)

    def _on_writable(self, channel: Channel) -> None:
        self._flush(channel)
        if channel.is_open and not channel.out_bytes and not channel.is_muted and channel.has_input and self.is_reading:
            channel.resume_input()
            self._advance(channel)

    def _flush(self, channel: Channel) -> None:
        before = channel.out_bytes
        if before and not channel.flush():
            if channel.stuck_since is None or channel.out_bytes < before:
                channel.stuck_since = self.loop.now
            self._want(channel, WRITE)
            return
        channel.stuck_since = None
        if channel.answered:
            channel.count_answered(self.loop.monotonic())
        if channel.mute is NOT_MUTED and not channel.is_paused_for_memory:
            self._want(channel, READ)

    def _want(self, channel: Channel, events: int) -> None:
        if not self.is_reading:
            events &= ~READ
        if channel.interest != events:
            channel.interest = events
            self.loop.modify(channel.fd, events)
        if events & READ and channel.has_unread:
            self.loop.post(partial(self._read_on, channel))

    def _read_on(self, channel: Channel) -> None:
        if channel.is_open:
            self._on_ready(channel, READ)
