"""The header in front of every request and every response.

    request header                            response header
    int16    api_key                          int32    correlation_id
    int16    api_version                      tagged   1+
    int32    correlation_id
    string?  client_id      1+, with a length of two bytes even in version 2
    tagged                  2+

Which header version goes with a request follows from the first two fields (`apis`). Nobody has defined a tagged field for either
header; the ones found are skipped, and more than MAX_HEADER_TAGS of them are refused.

`read_request_header` also reads the header of an API or version that is not known here, as far as it is the same for all: the
caller may owe an answer (ApiVersions) or a sentence in its log. The other functions take known ones only.
Of a client id the first MAX_CLIENT_ID characters are kept; they are a stranger's text, so escape them where they are shown.
"""

from __future__ import annotations

import struct

from milepost.codec.buffer import Buffer
from milepost.errors import InvalidArgument, MalformedMessage
from milepost.protocol import reading
from milepost.protocol.apis import APIS

MAX_HEADER_TAGS = 64
MAX_CLIENT_ID = 255

# By API key and version, for every version known here.
_PAIRS = [(api, version) for api in APIS for version in range(api.known[0], api.known[1] + 1)]
_REQUEST_VERSIONS = {(api.key, version): api.request_header_version(version) for api, version in _PAIRS}
_RESPONSE_VERSIONS = {(api.key, version): api.response_header_version(version) for api, version in _PAIRS}

_START = struct.Struct(">hhih")
_START_WITHOUT_CLIENT_ID = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader:
    __slots__ = ("api_key", "api_version", "body", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: int) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        """Where the body starts; behind the client id when the API or version is not known here."""

    def __repr__(self) -> str:
        return f"RequestHeader({self.api_key}, {self.api_version}, {self.correlation_id}, {self.client_id!r}, body={self.body})"


def read_request_header(frame: Buffer) -> RequestHeader:
    position = 0
    try:
        api_key, api_version, correlation_id, length = _START.unpack_from(frame)
        header_version = _REQUEST_VERSIONS.get((api_key, api_version), 1)
        if header_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, 8)
        position = 10
        client_id = None
        if length != -1:
            end = 10 + length
            if not 10 <= end <= len(frame):
                reading.bad_length(length, len(frame) - 10)
            client_id = str(frame[10:end], "utf-8")[:MAX_CLIENT_ID]
            position = end
        if header_version == 2:
            position = _skip_tags(frame, position)
    except (IndexError, struct.error, ValueError) as error:
        raise _malformed("request header", error, position, len(frame)) from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    header_version = _REQUEST_VERSIONS[api_key, api_version]
    if header_version == 0:
        return _START_WITHOUT_CLIENT_ID.pack(api_key, api_version, correlation_id)
    text = b"" if client_id is None else client_id.encode()
    if len(text) > reading.MAX_STRING:
        raise InvalidArgument(f"the client id has {len(text)} bytes, {reading.MAX_STRING} are allowed")
    start = _START.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(text))
    return start + text + (b"\0" if header_version == 2 else b"")


def read_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id, and where the body starts."""
    position = 0
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
        position = 4
        if _RESPONSE_VERSIONS[api_key, api_version]:
            position = _skip_tags(frame, position)
    except (IndexError, struct.error, ValueError) as error:
        raise _malformed("response header", error, position, len(frame)) from None
    return correlation_id, position


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    start = _CORRELATION_ID.pack(correlation_id)
    return start + b"\0" if _RESPONSE_VERSIONS[api_key, api_version] else start


def _skip_tags(frame: Buffer, position: int) -> int:
    count = frame[position]
    position += 1
    if count == 0:
        return position
    if count > MAX_HEADER_TAGS:  # 64 fits the first byte of a varint, so a longer one is more
        raise reading.Damage(f"has more than {MAX_HEADER_TAGS} tagged fields")
    return reading.unknown_tags(frame, position, count, len(frame))[1]


def _malformed(what: str, error: Exception, position: int, size: int) -> MalformedMessage:
    return MalformedMessage(f"{what} {reading.describe(error)}, at byte {position} of {size}")
