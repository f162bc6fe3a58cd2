"""One connection without its socket: bytes in, frames out; and for a client, which answer belongs to which request.

    int32  size      of what follows, at least 1 and at most `max_size`
    ...    frame     a header and a body (`frames`)

The caller reads from its socket and feeds what it got, however it was cut. A frame that lies within one feed is a view of the
bytes fed: no copy, and good for as long as the caller leaves those bytes alone. A frame that arrives in pieces is collected in a
buffer of its own, which grows with what was received and never by what the size promises. So a peer that says 100 MiB and
sends four bytes costs four bytes.

A size out of bounds raises `MalformedMessage`; what the bytes look like otherwise (TLS, HTTP, SSH on a plaintext port) is in the
sentence. The connection is of no use after that: nothing says where the next frame starts.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, NamedTuple

from milepost.codec.buffer import Buffer
from milepost.errors import MalformedMessage
from milepost.protocol import frames
from milepost.protocol.apis import API_VERSIONS
from milepost.protocol.follower_fetch_frames import RepeatedFetch

DEFAULT_MAX_SIZE = 100 << 20
"""Kafka's default of `socket.request.max.bytes`."""

_SIZE = struct.Struct(">i")
_UNSUPPORTED_VERSION = b"\x00\x23"
_STRANGERS = (
    (b"\x16\x03", "a TLS client on a plaintext listener"),
    (b"GET ", "an HTTP client"),
    (b"POST", "an HTTP client"),
    (b"HEAD", "an HTTP client"),
    (b"SSH-", "an SSH client"),
)


class FrameReader:
    """Bytes to frames. `max_size` may be changed between feeds; it holds for sizes read from then on."""

    __slots__ = ("_missing", "_partial", "max_size")

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size = max_size
        self._partial = bytearray()  # of the size while `_missing` is 0, else of the frame
        self._missing = 0

    @property
    def missing(self) -> int:
        """How many bytes the frame begun still needs; 0 when there is none, or not yet its size."""
        return self._missing

    def feed(self, data: Buffer) -> list[memoryview]:
        """The frames that `data` completes, in order; empty ones do not exist."""
        view = memoryview(data)
        done: list[memoryview] = []
        position, end = 0, len(view)
        if self._partial or self._missing:
            position = self._complete(view, done)
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self.max_size:
                raise self._refused(size, view[position : position + 4])
            position += 4
            if size > end - position:
                self._missing = size - (end - position)
                self._partial = bytearray(view[position:])
                return done
            done.append(view[position : position + size])
            position += size
        if position < end:
            self._partial = bytearray(view[position:])
        return done

    def _complete(self, view: memoryview, done: list[memoryview]) -> int:
        """Goes on with what the last feed left; returns how far in `view` that went."""
        position = 0
        if self._missing == 0:
            position = 4 - len(self._partial)
            self._partial += view[:position]
            if len(self._partial) < 4:
                return len(view)
            (size,) = _SIZE.unpack(self._partial)
            if not 0 < size <= self.max_size:
                raise self._refused(size, self._partial)
            self._partial = bytearray()
            self._missing = size
        taken = view[position : position + self._missing]
        self._partial += taken
        self._missing -= len(taken)
        if self._missing == 0:
            done.append(memoryview(self._partial))
            self._partial = bytearray()
        return position + len(taken)

    def _refused(self, size: int, start: Buffer) -> MalformedMessage:
        looks_like = [f"; this looks like {who}" for opening, who in _STRANGERS if bytes(start).startswith(opening)]
        return MalformedMessage(f"a frame of {size} bytes is announced, 1 to {self.max_size} are allowed{''.join(looks_like)}")


class Answer(NamedTuple):
    correlation_id: int
    api_key: int
    api_version: int
    body: Any


class ClientConnection:
    """The client's end: numbers its requests and reads each answer as the version it was asked in.

    A broker answers in the order of the requests, so the next answer must be to the oldest request that is open.
    """

    def __init__(self, client_id: str | None = None, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.client_id = client_id
        self._reader = FrameReader(max_size)
        self._open: deque[tuple[int, int, int, RepeatedFetch | None]] = deque()
        self._next_correlation_id = 0

    @property
    def in_flight(self) -> int:
        return len(self._open)

    def send(self, key: int, version: int, body: Any, *, answered: bool = True) -> tuple[int, bytes]:
        """The correlation id, and the frame to send. A produce request with acks 0 is not answered."""
        correlation_id = self._next_correlation_id
        repeated = body if isinstance(body, RepeatedFetch) else None
        if repeated is not None:
            frame = repeated.encode(correlation_id, self.client_id)
        else:
            frame = frames.encode_request(key, version, correlation_id, self.client_id, body)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if answered:
            self._open.append((correlation_id, key, version, repeated))
        return correlation_id, frame

    def receive(self, data: Buffer) -> list[Answer]:
        return [self._answer(frame) for frame in self._reader.feed(data)]

    def _answer(self, frame: memoryview) -> Answer:
        if not self._open:
            raise MalformedMessage(f"an answer of {len(frame)} bytes came, and no request is open")
        expected, key, version, repeated = self._open.popleft()
        if len(frame) < 4 or (found := _SIZE.unpack_from(frame)[0]) != expected:
            told = f"correlation id {found}" if len(frame) >= 4 else f"{len(frame)} bytes"
            raise MalformedMessage(f"an answer with {told} came, the oldest open request has {expected}")
        if repeated is not None:
            return Answer(expected, key, version, repeated.decode(frame))
        # Kafka answers an ApiVersions version that it does not know in version 0; the error code says so.
        if key == API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
            version = 0
        correlation_id, body = frames.decode_response(key, version, frame)
        return Answer(correlation_id, key, version, body)
