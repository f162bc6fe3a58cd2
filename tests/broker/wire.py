"""A small blocking client for tests: one connection, one request at a time, any version, and a look at a connection that was closed."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Any

from milepost.protocol import frames
from milepost.protocol.apis import BY_NAME
from milepost.protocol.message import Message

TIMEOUT_SECONDS = 60


class Wire:
    """`Wire(broker.bootstrap_servers).ask(MetadataRequest(topics=None), 12)`."""

    def __init__(self, bootstrap_servers: str, client_id: str | None = "wire", tls: ssl.SSLContext | None = None):
        self._address = bootstrap_servers
        self._tls = tls
        self.client_id = client_id
        self._correlation_id = 0
        self.socket = self._connected()

    def _connected(self) -> socket.socket:
        host, _, port = self._address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        return plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname="localhost")

    def reconnect(self) -> None:
        """Another connection instead of this one."""
        self.close()
        self.socket = self._connected()

    def ask(self, request: Message, version: int) -> Any:
        """The response to a request, in the same version."""
        key = self.send(request, version)
        correlation_id, response = frames.decode_response(key, version, self.read_frame())
        assert correlation_id == self._correlation_id
        return response

    def send(self, request: Message, version: int) -> int:
        """Only the request; its API key."""
        key = BY_NAME[type(request).__name__.removesuffix("Request")].key
        self._correlation_id += 1
        self.socket.sendall(frames.encode_request(key, version, self._correlation_id, self.client_id, request))
        return key

    def read_frame(self) -> bytes:
        return self._read(*struct.unpack(">i", self._read(4)))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"closed by the broker after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
