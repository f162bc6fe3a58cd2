"""The receiving half of a connection: bytes as they come, whole frames as they go.

A frame on the wire is four bytes of size and that many bytes of request. All connections of a processor receive into one
buffer and its frames are handed on as views of it. What is left of a frame at its end is kept until more comes:

    less than 16 KB   copied, and put back at the front of the receive buffer for the next receive
    more              the connection keeps the receive buffer itself and goes on receiving there, and the processor takes a spare
                      one; a handful of buffers can be out like this. Beyond that, and for frames that are larger than the buffer,
                      memory of its own, at most twice of what was received.

So the bytes of a large frame are copied once at most, and memory grows with what a peer has sent, never with what it announces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Protocol

from milepost.errors import MalformedMessage

_frame_size = struct.Struct(">i").unpack_from
SIZE_BYTES = 4
KEPT_AS_COPY = 16 << 10
BUFFER_SIZE = (1 << 20) + (64 << 10)  # a batch of the largest size that topics take by default, and its request
MOST_LENT = 8
NOTHING = memoryview(b"")


class ReceiveBuffers:
    """The receive buffer of a processor, and those that are out on loan."""

    def __init__(self, size: int = BUFFER_SIZE):
        self.size = size
        self.current = memoryview(bytearray(size))
        self._spare: list[memoryview] = []
        self._lent = 0

    def lend(self) -> memoryview | None:
        """The receive buffer, for keeps: another one takes its place. None when too many are out."""
        if self._lent >= MOST_LENT:
            return None
        self._lent += 1
        lent, self.current = self.current, self._spare.pop() if self._spare else memoryview(bytearray(self.size))
        return lent

    def take_back(self, buffer: memoryview) -> None:
        self._lent -= 1
        self._spare.append(buffer)

    def give_up(self, buffer: memoryview) -> None:
        """Another owner keeps a frame of this buffer: it is freed with that frame."""
        if buffer is self.current:
            self.current = self._spare.pop() if self._spare else memoryview(bytearray(self.size))
        else:
            self._lent -= 1


class ChannelSocket(Protocol):
    """What a connection uses of a socket; an encrypted one has its own (`tls_channel`)."""

    def fileno(self) -> int: ...
    def recv_into(self, room: memoryview, most: int = 0) -> int: ...
    def send(self, data: Any) -> int: ...
    def sendmsg(self, buffers: Iterable[memoryview], ancillary: Any = (), flags: int = 0) -> int: ...
    def close(self) -> None: ...


class FrameInput:
    __slots__ = ("_at", "_buffers", "_end", "_held", "_is_lent", "_kept", "_view", "peer", "sock")

    def __init__(self, sock: ChannelSocket, peer: str, buffers: ReceiveBuffers):
        self.sock = sock
        self.peer = peer
        self._buffers = buffers
        self._view = NOTHING
        self._at = self._end = 0
        # At most one of the two: a copy of the start of a frame, or a buffer that begins with it. Both can be written to, as the receive
        # buffer can: an append stamps its batch where it lies.
        self._kept: bytes | bytearray = b""
        self._held: memoryview | None = None
        self._is_lent = False

    def receive(self, most: int = 0) -> int:
        """Take in what the socket has (0), or at most so many bytes; how many came. Views from `next_frame` hold until `keep_rest`."""
        if self._held is not None:
            room = self._held[self._end :]
            size = self.sock.recv_into(room, min(most, len(room)))
        else:
            self._view = view = self._buffers.current
            kept = len(self._kept)
            if kept:
                view[:kept] = self._kept
                size = self.sock.recv_into(view[kept:], min(most, len(view) - kept))
            else:
                size = self.sock.recv_into(view, min(most, len(view)))
            self._at, self._end = 0, kept
        self._end += size
        return size

    def next_frame(self, most: int) -> memoryview | None:
        """The next whole request, or None until more is received. A size that cannot be raises."""
        at = self._at + SIZE_BYTES
        if at > self._end:
            return None
        size: int = _frame_size(self._view, self._at)[0]
        if not 0 < size <= most:
            start = bytes(self._view[self._at : at])
            raise MalformedMessage(f"a frame of {size} bytes was announced; allowed are 1 to {most}{hint(start)}")
        end = at + size
        if end > self._end:
            return None
        self._at = end
        return self._view[at:end]

    def has_frame(self, most: int) -> bool:
        """Whether `next_frame` has something to say: a whole request, or a size that cannot be."""
        at = self._at + SIZE_BYTES
        if at > self._end:
            return False
        size: int = _frame_size(self._view, self._at)[0]
        return at + size <= self._end or size > most

    @property
    def has_taken(self) -> bool:
        """Whether `next_frame`, or a fast path, has taken a frame since the last `keep_rest`."""
        return self._at > 0

    @property
    def waiting_input(self) -> tuple[memoryview, int, int]:
        """What `next_frame` has not handed on yet: a buffer, and from where to where."""
        return self._view, self._at, self._end

    def skip_input(self, at: int) -> None:
        """A fast path has taken the frames up to there."""
        self._at = at

    def keep_rest(self) -> None:
        """Keep what is left of a frame before the receive buffer is used again."""
        rest = self._end - self._at
        if rest < KEPT_AS_COPY:
            kept = bytearray(self._view[self._at : self._end]) if rest else b""
            if self._held is not None:
                self.drop_input()
            self._kept = kept
        elif self._held is None:
            self._hold(rest)
        else:
            if self._at:
                self._held[:rest] = self._held[self._at : self._end]
                self._at, self._end = 0, rest
            if self._end == len(self._held):
                self._grow()

    def keep_frame(self) -> None:
        """Leave the frame that was handed on last as it is, for as long as it is used: receive elsewhere from now on."""
        rest = bytearray(self._view[self._at : self._end])
        if self._is_lent or self._view is self._buffers.current:
            self._buffers.give_up(self._view)
        self._held, self._is_lent = None, False
        self._kept = b""
        self._view = memoryview(rest)
        self._at, self._end = 0, len(rest)

    def _hold(self, rest: int) -> None:
        """From here on receive behind the rest, wherever that lies."""
        lent = self._buffers.lend() if self._view is self._buffers.current else None
        if lent is not None:
            lent[:rest] = lent[self._at : self._end]
            self._held = self._view = lent
            self._is_lent = True
            self._at, self._end = 0, rest
            self._kept = b""
            if rest == len(lent):
                self._grow()
        else:
            self._own(self._view[self._at : self._end])

    def _grow(self) -> None:
        assert self._held is not None
        held, was_lent = self._held, self._is_lent
        self._own(held)
        if was_lent:
            self._buffers.take_back(held)

    def _own(self, start: memoryview) -> None:
        self._held = self._view = memoryview(bytearray(2 * len(start)))
        self._held[: len(start)] = start
        self._is_lent = False
        self._at, self._end = 0, len(start)
        self._kept = b""

    def drop_input(self) -> None:
        """Forget what was kept, and give back what was lent."""
        if self._held is not None and self._is_lent:
            self._buffers.take_back(self._held)
        self._held, self._is_lent = None, False
        self._kept = b""
        self._view = NOTHING
        self._at = self._end = 0

    @property
    def has_input(self) -> bool:
        return bool(self._kept) or self._held is not None

    @property
    def received_bytes(self) -> int:
        """How much of the request that is coming in is here."""
        return self._rest

    @property
    def missing_bytes(self) -> int:
        """How much of the request that is coming in is still to be received, or of its size."""
        return max(self._announced, SIZE_BYTES) - self._rest

    @property
    def _rest(self) -> int:
        return len(self._kept) if self._held is None else self._end - self._at

    @property
    def _announced(self) -> int:
        """The size of the request that is coming in, with the four bytes that say so; 0 before they are there."""
        if self._rest < SIZE_BYTES:
            return 0
        size: int = _frame_size(self._kept)[0] if self._held is None else _frame_size(self._held, self._at)[0]
        return SIZE_BYTES + size

    def resume_input(self) -> None:
        """Look again at what was kept: the connection was muted with frames behind the one in hand."""
        if self._held is None:
            self._view = memoryview(self._kept)
            self._at, self._end = 0, len(self._kept)


def hint(start: bytes) -> str:
    """Who talks like that? A size that makes no sense is often the start of another protocol."""
    if start[:2] == b"\x16\x03":
        return "; this looks like a TLS client on a plaintext listener"
    if start in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "; this looks like an HTTP client"
    return "; this looks like an SSH client" if start == b"SSH-" else ""
