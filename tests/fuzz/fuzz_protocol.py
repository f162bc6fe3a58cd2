"""atheris target: frames from hostile bytes. Run it: `python -m tests.fuzz.fuzz_protocol -atheris_runs=N`.

The first byte chooses what the rest is: a stream to be cut into frames, a request frame with its header, or a body, whose API,
version and direction the next three bytes choose.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost"]):
    from milepost.errors import MalformedMessage, UnsupportedVersion
    from milepost.protocol import frames, generated
    from milepost.protocol.apis import APIS, BY_KEY
    from milepost.protocol.connection import FrameReader
    from milepost.protocol.headers import read_request_header

MAX_SIZE = 1 << 12


@functools.cache
def codec(key: int, version: int, kind: str) -> tuple[Any, Any]:
    """Decoder and encoder; they are generated, so atheris does not see them at import."""
    if kind == "request":
        pair = generated.request_decoder(key, version), generated.request_encoder(key, version)
    else:
        pair = generated.response_decoder(key, version), generated.response_encoder(key, version)
    for function in pair:
        atheris.instrument_func(function)
    return pair


def stream(data: bytes) -> None:
    reader = FrameReader(max_size=MAX_SIZE)
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        for frame in reader.feed(piece):
            assert 1 <= len(frame) <= MAX_SIZE
            request(bytes(frame))
    assert len(reader._partial) <= len(data)


def request(frame: bytes) -> None:
    header = read_request_header(frame)
    assert header.body <= len(frame)
    if (api := BY_KEY.get(header.api_key)) is not None and api.knows(header.api_version):
        codec(header.api_key, header.api_version, "request")
    body, left = frames.decode_request(header, frame)
    assert 0 <= left <= len(frame)
    again = frames.encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, body)
    same = read_request_header(again[4:])
    assert frames.decode_request(same, again[4:]) == (body, 0)


def body(data: bytes) -> None:
    api = APIS[data[0] % len(APIS)]
    version = api.known[0] + data[1] % (api.known[1] - api.known[0] + 1)
    decoder, encoder = codec(api.key, version, "request" if data[2] & 1 else "response")
    message, end = decoder(data, 3)
    assert 3 <= end <= len(data)
    pieces: list[bytes] = []
    encoder(message, pieces.append)
    again = b"".join(pieces)
    # NaN is not equal to itself; only the two APIs of client quotas have floats.
    assert api.key in (48, 49) or decoder(again, 0) == (message, len(again))


def test_one_input(data: bytes) -> None:
    if len(data) < 4:
        return
    with contextlib.suppress(MalformedMessage, UnsupportedVersion):
        (stream, request, body, body)[data[0] & 3](data[1:])


if __name__ == "__main__":
    fuzz(test_one_input)
