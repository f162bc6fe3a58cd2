"""Whole frames: a header, a body, and in front of what is sent the size.

Reading takes a frame without its size, as `connection.FrameReader` gives it; writing gives it with its size, ready to send.

Bytes behind the body of a request are accepted, as Kafka does; `decode_request` says how many there were, to be counted.
"""

from __future__ import annotations

import struct
from typing import Any

from milepost.codec.buffer import Buffer
from milepost.errors import InvalidArgument
from milepost.protocol import compiled, headers
from milepost.protocol.headers import RequestHeader

MAX_FRAME = 2**31 - 1

_SIZE = struct.Struct(">i")


def decode_request(header: RequestHeader, frame: Buffer) -> tuple[Any, int]:
    """The body, and how many bytes are left behind it."""
    body, end = compiled.request_decoder(header.api_key, header.api_version)(frame, header.body)
    return body, len(frame) - end


def encode_request(key: int, version: int, correlation_id: int, client_id: str | None, body: Any) -> bytes:
    api = compiled.api_of(key, version)
    pieces = [b"", headers.request_header(api, version, correlation_id, client_id)]
    compiled.request_encoder(key, version)(body, pieces.append)
    return _joined(pieces)


def decode_response(key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id, and the body."""
    correlation_id, start = headers.read_response_header(frame, compiled.api_of(key, version), version)
    return correlation_id, compiled.response_decoder(key, version)(frame, start)[0]


def encode_response(key: int, version: int, correlation_id: int, body: Any) -> bytes:
    pieces = [b"", headers.response_header(compiled.api_of(key, version), version, correlation_id)]
    compiled.response_encoder(key, version)(body, pieces.append)
    return _joined(pieces)


def gather_response(key: int, version: int, correlation_id: int, body: Any) -> list[Any]:
    """The same in pieces for a gathering write: what a `records` field holds is in the list as it is, never copied.

    It may be any object with a length that the caller knows how to send, a stretch of a file for instance. Bytes are joined
    with their neighbours.
    """
    pieces: list[Any] = [headers.response_header(compiled.api_of(key, version), version, correlation_id)]
    compiled.response_encoder(key, version)(body, pieces.append)
    gathered: list[Any] = []
    run = [_size(sum(map(len, pieces)))]
    for piece in pieces:
        if type(piece) is bytes:
            run.append(piece)
        else:
            gathered += (b"".join(run), piece)
            run = []
    if run:
        gathered.append(b"".join(run))
    return gathered


def _joined(pieces: list[bytes]) -> bytes:
    pieces[0] = _size(sum(map(len, pieces)))
    return b"".join(pieces)


def _size(size: int) -> bytes:
    if size > MAX_FRAME:
        raise InvalidArgument(f"a frame of {size} bytes does not fit its size, which ends at {MAX_FRAME}")
    return _SIZE.pack(size)
