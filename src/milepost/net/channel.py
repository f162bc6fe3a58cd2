"""One connection: the bytes that came in, the bytes that go out, and whether it may be read.

A frame on the wire is four bytes of size and that many bytes of request. What is received is handed on as views of
the processor's receive buffer where whole frames lie in it; only the piece of a frame at its end is kept here. Memory
grows with what a peer has sent, never with what it announces.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.errors import MalformedMessage
from milepost.net.event_loop import READ
from milepost.net.mute_state import MuteEvent, MuteState, after
from milepost.segment.file_records import FileSlice

if TYPE_CHECKING:
    from milepost.net.processor import Processor
    from milepost.net.request import Outgoing

_frame_size = struct.Struct(">i").unpack_from
SIZE_BYTES = 4
MOST_BUFFERS = 64  # of one gathering write; the kernel takes up to 1024


class Channel:
    __slots__ = (
        "_kept",
        "_out",
        "_view",
        "deadline",
        "fd",
        "interest",
        "is_advancing",
        "is_open",
        "last_active",
        "listener",
        "mute",
        "out_bytes",
        "peer",
        "processor",
        "sock",
        "state",
    )

    def __init__(self, sock: socket.socket, peer: str, listener: str, processor: Processor, now: float):
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.listener = listener
        self.processor = processor
        self.last_active = now
        self.mute = MuteState.NOT_MUTED
        self.is_open = True
        self.is_advancing = False
        self.interest = READ
        # When the frame that is coming in must be complete: a peer that sends a byte a second does not stay for ever.
        self.deadline: float | None = None
        # Whatever the layer above remembers about a connection: client name, fetch session, principal.
        self.state: dict[str, object] = {}
        self._kept = bytearray()
        self._view = memoryview(b"")
        self._out: deque[memoryview | FileSlice] = deque()
        self.out_bytes = 0

    # In.

    def feed(self, received: memoryview) -> None:
        """Take in what was received. The views that `next_frame` gives are valid until `keep_rest`."""
        if self._kept:
            self._kept += received
            received = memoryview(self._kept)
        self._view = received

    def next_frame(self, most: int) -> memoryview | None:
        """The next whole request, or None until more is received. A size that cannot be raises."""
        view = self._view
        if len(view) < SIZE_BYTES:
            return None
        size: int = _frame_size(view)[0]
        if not 0 < size <= most:
            raise MalformedMessage(
                f"{self.peer}: a frame of {size} bytes was announced; allowed are 1 to {most}{hint(bytes(view[:4]))}"
            )
        if len(view) < SIZE_BYTES + size:
            return None
        self._view = view[SIZE_BYTES + size :]
        return view[SIZE_BYTES : SIZE_BYTES + size]

    def keep_rest(self) -> None:
        """Keep what is left of a frame before the receive buffer is used again."""
        rest, self._view = self._view, memoryview(b"")
        kept = bytearray(rest)
        rest.release()
        self._kept = kept

    @property
    def has_input(self) -> bool:
        return bool(self._kept)

    def resume_input(self) -> None:
        """Look again at what was kept: the connection was muted with frames behind the one in hand."""
        self._view = memoryview(self._kept)

    # Out.

    def queue(self, outgoing: Sequence[Outgoing]) -> None:
        for piece in outgoing:
            if len(piece):
                self._out.append(piece if isinstance(piece, FileSlice) else memoryview(piece))
                self.out_bytes += len(piece)

    def flush(self) -> bool:
        """Send as much as the socket takes; whether everything went."""
        while self._out:
            try:
                sent = self._send_file() if isinstance(self._out[0], FileSlice) else self._send_buffers()
            except BlockingIOError:
                return False
            self.out_bytes -= sent
        return True

    def _send_buffers(self) -> int:
        buffers: list[memoryview] = []
        for piece in self._out:
            if isinstance(piece, FileSlice) or len(buffers) == MOST_BUFFERS:
                break
            buffers.append(piece)
        sent = left = self.sock.sendmsg(buffers)
        for buffer in buffers:
            if left < len(buffer):
                if left:
                    self._out[0] = buffer[left:]
                break
            left -= len(buffer)
            self._out.popleft()
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

    # Muting.

    def note(self, event: MuteEvent) -> None:
        self.mute = after(self.mute, event)

    @property
    def is_muted(self) -> bool:
        return self.mute is not MuteState.NOT_MUTED


def hint(start: bytes) -> str:
    """Who talks like that? A size that makes no sense is often the start of another protocol."""
    if start[:2] == b"\x16\x03":
        return "; this looks like a TLS client on a plaintext listener"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "; this looks like an HTTP client"
    return "; this looks like an SSH client" if start == b"SSH-" else ""
