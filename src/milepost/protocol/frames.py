"""Whole frames: a header, a body, and in front of what is sent the size.

Reading takes a frame without its size, as `connection.FrameReader` gives it; writing gives it with its size, ready to send.

Bytes behind the body of a request are accepted, as Kafka does; `decode_request` says how many there were, to be counted.

A server does not know how much work a frame is before it has begun: it tries `decode_short_request`, and begins anew with
`decoding_request` when the frame turns out to have more than SHORT_ELEMENTS. That one and `gathering_response` are generators, which
yield every few elements.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from milepost.codec.buffer import Buffer
from milepost.errors import InvalidArgument
from milepost.protocol import generated, headers
from milepost.protocol.headers import RequestHeader

MAX_FRAME = 2**31 - 1
SHORT_ELEMENTS = 500
MOST_PIECES = 4096
"""Bytes are joined whenever there are so many: a byte by itself takes thirty."""

_SIZE = struct.Struct(">i")


def decode_request(header: RequestHeader, frame: Buffer) -> tuple[Any, int]:
    """The body, and how many bytes are left behind it."""
    body, end = generated.request_decoder(header.api_key, header.api_version)(frame, header.body)
    return body, len(frame) - end


def decode_short_request(header: RequestHeader, frame: Buffer) -> Any:
    """The body, unless it has so many elements that it should be decoded piece by piece: TooManyElements."""
    return generated.request_decoder(header.api_key, header.api_version)(frame, header.body, SHORT_ELEMENTS)[0]


def decoding_request(header: RequestHeader, frame: Buffer) -> Generator[None, None, Any]:
    """The body, piece by piece."""
    body, _ = yield from generated.sliced_request_decoder(header.api_key, header.api_version)(frame, header.body)
    return body


def encode_request(key: int, version: int, correlation_id: int, client_id: str | None, body: Any) -> bytes:
    encode = generated.request_encoder(key, version)
    pieces = [headers.request_header(key, version, correlation_id, client_id)]
    encode(body, pieces.append)
    return _joined(pieces)


def decode_response(key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id, and the body."""
    decode = generated.response_decoder(key, version)
    correlation_id, start = headers.read_response_header(frame, key, version)
    return correlation_id, decode(frame, start)[0]


def encode_response(key: int, version: int, correlation_id: int, body: Any) -> bytes:
    return _joined(_response_pieces(key, version, correlation_id, body))


def gather_response(key: int, version: int, correlation_id: int, body: Any) -> list[Any]:
    """The frame in pieces for a gathering write: what a `records` field holds is in the list as it is, never copied.

    It may be any object with a length that the caller knows how to send, a stretch of a file for instance. Bytes are joined
    with their neighbours.
    """
    gathered = _joined_bytes(_response_pieces(key, version, correlation_id, body))
    gathered[0] = _size(sum(map(len, gathered))) + gathered[0]
    return gathered


def gathering_response(key: int, version: int, correlation_id: int, body: Any) -> Generator[None, None, list[Any]]:
    """The same, piece by piece."""
    pieces = [headers.response_header(key, version, correlation_id)]
    gathered: list[Any] = []
    for _ in generated.sliced_response_encoder(key, version)(body, pieces.append):
        if len(pieces) > MOST_PIECES:
            gathered += _joined_bytes(pieces)
            pieces.clear()
        yield
    gathered += _joined_bytes(pieces)
    return [_size(sum(map(len, gathered))), *gathered]


def _response_pieces(key: int, version: int, correlation_id: int, body: Any) -> list[Any]:
    encode = generated.response_encoder(key, version)
    pieces = [headers.response_header(key, version, correlation_id)]
    encode(body, pieces.append)
    return pieces


def _joined(pieces: list[Any]) -> bytes:
    frame = b"".join(pieces)
    return _size(len(frame)) + frame


def _joined_bytes(pieces: list[Any]) -> list[Any]:
    """Neighbours that are bytes as one; whatever else there is stays as it is."""
    joined: list[Any] = []
    start = 0
    for index in [index for index, piece in enumerate(pieces) if type(piece) is not bytes]:
        joined += (b"".join(pieces[start:index]), pieces[index])
        start = index + 1
    if start < len(pieces):
        joined.append(b"".join(pieces[start:]))
    return joined


def _size(size: int) -> bytes:
    if size > MAX_FRAME:
        raise InvalidArgument(f"a frame of {size} bytes does not fit its size, which ends at {MAX_FRAME}")
    return _SIZE.pack(size)
