"""One connection: the frames that come in (`frame_input`), the bytes that go out, and whether it may be read."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from milepost.net.event_loop import READ
from milepost.net.frame_input import ChannelSocket, FrameInput, ReceiveBuffers
from milepost.net.mute_state import MuteEvent, MuteState, after
from milepost.net.response_order import OrderedResponse, ResponseOrder
from milepost.security.principal import ANONYMOUS, KafkaPrincipal
from milepost.segment.file_records import FileSlice

if TYPE_CHECKING:
    from milepost.net.fast_path import FastPath
    from milepost.net.outgoing import Outgoing
    from milepost.net.output_budget import OutputBudget

MOST_BUFFERS = 64  # of one gathering write; the kernel takes up to 1024


class Answered(Protocol):
    """One request, or several, to be counted when their answers have left."""

    def count(self, sent_at: float) -> None: ...


class PendingRequest(OrderedResponse, Answered, Protocol):
    """A request of a connection, until its answer has left."""

    @property
    def channel(self) -> Channel: ...

    frame: memoryview
    answered_at: float
    taken_at: float
    throttle_seconds: float


class Login(Protocol):
    """How a peer says who it is, and proves it."""

    def takes(self, request: Any) -> bool:
        """Whether the request is part of it, or may not come before it. It is answered, or will be."""


class ChannelOwner(Protocol):
    """What a connection and its requests need of the processor that has them."""

    output: OutputBudget
    is_pooled: bool
    max_request_bytes: int

    def answer(self, request: PendingRequest, outgoing: Sequence[Outgoing]) -> None: ...

    def refuse(self, request: PendingRequest, reason: str) -> None: ...

    def close(self, channel: Channel, reason: str = "") -> None: ...

    def expel(self, channel: Channel, reason: str) -> None: ...


class Channel(FrameInput):
    __slots__ = (
        "_out",
        "_pass_began",
        "_turn_began",
        "answered",
        "broker_id",
        "fast_path",
        "fd",
        "frame_bytes",
        "frame_since",
        "interest",
        "is_advancing",
        "is_open",
        "is_paused_for_memory",
        "is_put_off",
        "last_active",
        "listener",
        "login",
        "login_ends",
        "max_request_bytes",
        "mute",
        "opened_at",
        "out_bytes",
        "pending_responses",
        "principal",
        "processor",
        "reserved",
        "state",
        "stuck_since",
    )

    has_unread: bool = False
    """Whether there are bytes that were received, and that the kernel would not report again."""

    def __init__(
        self, sock: ChannelSocket, peer: str, listener: str, processor: ChannelOwner, now: float, buffers: ReceiveBuffers
    ):
        super().__init__(sock, peer, buffers)
        self.fd = sock.fileno()
        self.listener = listener
        self.processor = processor
        self.opened_at = self.last_active = now
        self.mute = MuteState.NOT_MUTED
        self.is_open = True
        self.is_advancing = False
        self.interest = READ
        # When the current frame began to arrive, or was last found to come fast enough, and how much of it was there then.
        self.frame_since: float | None = None
        self.frame_bytes = 0
        # Since when the peer has taken nothing of what is to be sent.
        self.stuck_since: float | None = None
        # Bytes of the memory pool, and whether it had none left for this connection.
        self.reserved = 0
        self.is_paused_for_memory = False
        # Whether requests that are here already wait for the next turn.
        self.is_put_off = False
        self._pass_began = self._turn_began = 0.0
        # Requests whose answers have not left yet.
        self.answered: list[Answered] = []
        # Whatever the layer above remembers about a connection: client name, fetch session.
        self.state: dict[str, Any] = {}
        # Who the peer is; None until that is known, on a listener where it has to be.
        self.principal: KafkaPrincipal | None = ANONYMOUS
        # How the peer says so, where it has to; and when that holds no longer.
        self.login: Login | None = None
        self.login_ends: float | None = None
        # Of one request; less before it is known who sends it.
        self.max_request_bytes = 0
        # Which broker of the cluster the peer has proven to be.
        self.broker_id: int | None = None
        # Set by the layer above when it knows what comes next.
        self.fast_path: FastPath | None = None
        self.pending_responses: ResponseOrder[PendingRequest] = ResponseOrder()
        self._out: deque[memoryview | FileSlice] = deque()
        self.out_bytes = 0

    # Out.

    def queue(self, outgoing: Sequence[Outgoing]) -> None:
        for piece in outgoing:
            size = len(piece)
            if size:
                self.out_bytes += size
                if isinstance(piece, FileSlice):
                    self._out.append(piece)
                else:
                    self._out.append(memoryview(piece))
                    self.processor.output.waiting += size

    def send_now(self, answers: bytes | bytearray) -> bool:
        """Send it when nothing is queued before it; whether all of it was sent. The rest is queued."""
        try:
            sent = 0 if self._out else self.sock.send(answers)
        except BlockingIOError:
            sent = 0
        if sent == len(answers):
            return True
        self.queue((memoryview(answers)[sent:],))
        return False

    def flush(self) -> bool:
        """Send as much as the socket takes; whether everything was sent."""
        while self._out:
            try:
                if isinstance(self._out[0], FileSlice):
                    sent = self._send_file()
                else:
                    sent = self._send_buffers()
                    self.processor.output.release(sent)
            except BlockingIOError:
                return False
            self.out_bytes -= sent
        return True

    def drop_output(self) -> None:
        """Nobody takes it any more."""
        self.processor.output.release(sum(len(piece) for piece in self._out if not isinstance(piece, FileSlice)))
        self._out.clear()
        self.out_bytes = 0

    def _send_buffers(self) -> int:
        if len(self._out) == 1:
            return self._send_one()
        buffers: list[memoryview] = []
        flags = 0
        for piece in self._out:
            if isinstance(piece, FileSlice):
                # The head of an answer waits for its records: one packet less, and the peer is woken once.
                flags = socket.MSG_MORE
                break
            if len(buffers) == MOST_BUFFERS:
                break
            buffers.append(piece)
        sent = left = self.sock.sendmsg(buffers, (), flags)
        for buffer in buffers:
            if left < len(buffer):
                if left:
                    self._out[0] = buffer[left:]
                break
            left -= len(buffer)
            self._out.popleft()
        return sent

    def _send_one(self) -> int:
        piece = self._out[0]
        assert not isinstance(piece, FileSlice)
        sent = self.sock.send(piece)
        if sent < len(piece):
            self._out[0] = piece[sent:]
        else:
            self._out.clear()
        return sent

    def _send_file(self) -> int:
        piece = self._out[0]
        assert isinstance(piece, FileSlice)
        sent = piece.records.disk.sendfile(self.fd, piece.records.handle.fd, piece.position, piece.size)
        if sent == 0:
            raise ConnectionAbortedError(f"{piece.records.path}: ended {piece.size} bytes early while it was being sent")
        if sent < piece.size:
            self._out[0] = FileSlice(piece.records, piece.position + sent, piece.size - sent)
        else:
            self._out.popleft()
        return sent

    def count_answered(self, sent_at: float) -> None:
        """Everything that was to be sent is sent, or never will be."""
        for request in self.answered:
            request.count(sent_at)
        self.answered.clear()

    def turn_since(self, pass_began: float, now: float) -> float:
        """Since when its requests have been handled in this pass of the loop, perhaps in several goes: an answer that leads to the next
        request may be given by whoever gave the one before."""
        if self._pass_began != pass_began:
            self._pass_began, self._turn_began = pass_began, now
        return self._turn_began

    # Muting.

    def read_ahead(self, request: PendingRequest) -> None:
        """Read on, though the request is not answered yet."""
        # Only from its handler, before that returns; in a pool the next request might overtake it on its way to the log.
        is_early = self.is_advancing and not self.processor.is_pooled and self.mute is MuteState.MUTED and not request.answered_at
        if is_early and self.pending_responses.read_ahead(request):
            self.mute = MuteState.NOT_MUTED

    def note(self, event: MuteEvent) -> None:
        self.mute = after(self.mute, event)

    def note_frame(self, now: float) -> None:
        """Whether the start of a request is here, whose end has to come in time."""
        if not self.has_input or self.is_muted:
            self.frame_since = None
        elif self.frame_since is None:
            self.frame_since, self.frame_bytes = now, 0

    def restart_frame(self, now: float) -> None:
        """What comes of the request is counted from now on: it could not come before."""
        if self.frame_since is not None:
            self.frame_since, self.frame_bytes = now, self.received_bytes

    @property
    def host(self) -> str:
        return self.peer.rpartition(":")[0]

    @property
    def recency(self) -> tuple[bool, float]:
        """Who goes first when there is no room: connections that never said a word, then those that said none for longest."""
        return self.last_active > self.opened_at, self.last_active

    @property
    def is_muted(self) -> bool:
        return self.mute is not MuteState.NOT_MUTED
