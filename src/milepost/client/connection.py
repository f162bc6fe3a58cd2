"""A blocking connection to one broker: one socket, the versions both sides speak, and each answer to its request.

`Connection(address)` connects, asks for the broker's versions (ApiVersions) and logs in, if it has to, before anything else. A request
goes out in the newest version that both know, or in `highest` if that is older.

    ask       a request and its answer
    send      a request without waiting; several may be open, their answers come in order
    receive   the answer to the oldest open request

Every wait has an end: connecting, sending and receiving each take at most `timeout` seconds, however slowly the bytes drip in. What the
broker announces is bounded as the broker bounds what we announce (`max_size`), and memory grows with what was received, not with what was
promised. After any failure, an interruption too, the connection is closed: nobody can say whose answer would come next.

Not promised: that a request whose answer was lost was not carried out. Not for use by several threads.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from milepost.client import versions
from milepost.client.addresses import Address
from milepost.client.security import PLAIN_TEXT, ClientSecurity
from milepost.client.versions import API_VERSIONS_VERSION, api_of
from milepost.codec.text import counted
from milepost.errors import BrokerUnavailable, MalformedMessage
from milepost.protocol.apis import API_VERSIONS, BY_KEY, BY_NAME, Api, Versions
from milepost.protocol.connection import DEFAULT_MAX_SIZE, Answer, ClientConnection
from milepost.protocol.message import Message

CLIENT_ID = "milepost"
DEFAULT_TIMEOUT = 30.0
RECEIVE_BYTES = 1 << 18


class Connection:
    def __init__(
        self,
        address: Address,
        *,
        client_id: str | None = CLIENT_ID,
        timeout: float = DEFAULT_TIMEOUT,
        max_size: int = DEFAULT_MAX_SIZE,
        security: ClientSecurity = PLAIN_TEXT,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self.address = address
        self.timeout = timeout
        self.versions: dict[int, Versions] = {}
        self._security = security
        self._monotonic = monotonic
        self._frames = ClientConnection(client_id, max_size)
        self._answers: deque[Answer] = deque()
        self._socket: socket.socket | None = self._connect()
        try:
            self.versions = self._ask_versions()
            if security.login is not None:
                security.login.log_in(self)
        except BaseException:
            self.close()
            raise

    # Asking.

    def ask(self, request: Message, *, highest: int | None = None, timeout: float | None = None) -> Any:
        self._open_socket()
        assert not self._frames.in_flight and not self._answers, "the answer would be to an older request"
        self.send(request, highest=highest)
        return self.receive(timeout)

    def send(self, request: Message, *, highest: int | None = None) -> None:
        api = api_of(request)
        self._send(api.key, self.version_of(api, highest), request)

    def receive(self, timeout: float | None = None) -> Any:
        """The answer to the oldest request that is open."""
        allowed_seconds = self.timeout if timeout is None else timeout
        deadline = self._monotonic() + allowed_seconds
        while not self._answers:
            self._receive_some(deadline, allowed_seconds)
        return self._answers.popleft().body

    def version_of(self, api: Api | str, highest: int | None = None) -> int:
        """The version a request will go out in."""
        return versions.choose(BY_NAME[api] if isinstance(api, str) else api, self.versions, highest, self.address)

    def serves(self, api: str) -> bool:
        return BY_NAME[api].key in self.versions

    # The socket.

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def fileno(self) -> int:
        """For `select`."""
        return self._open_socket().fileno()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection(self.address, timeout=self.timeout)
        except OSError as error:
            raise BrokerUnavailable(f"no broker answers at {self.address}: {self._reason(error, self.timeout)}") from error
        except (UnicodeError, ValueError, OverflowError) as error:
            raise BrokerUnavailable(f"{str(self.address)[:80]!r} is no address: {error}") from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._security.encrypted(connected, self.address.host)
        except OSError as error:
            connected.close()
            raise BrokerUnavailable(f"{self.address}: the TLS handshake ended: {self._reason(error, self.timeout)}") from error
        except BaseException:
            connected.close()
            raise

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise BrokerUnavailable(f"the connection to {self.address} is closed")
        return self._socket

    def _send(self, key: int, version: int, request: Message) -> None:
        connected = self._open_socket()
        _, frame = self._frames.send(key, version, request)
        try:
            connected.settimeout(self.timeout)
            connected.sendall(frame)
        except OSError as error:
            self.close()
            raise BrokerUnavailable(
                f"{self.address}: the connection was lost while sending {BY_KEY[key].name}: {self._reason(error, self.timeout)}"
            ) from error
        except BaseException:
            self.close()
            raise

    def _receive_some(self, deadline: float, allowed_seconds: float) -> None:
        connected = self._open_socket()
        try:
            left = deadline - self._monotonic()
            if left <= 0:
                raise TimeoutError
            connected.settimeout(left)
            data = connected.recv(RECEIVE_BYTES)
            if not data:
                raise BrokerUnavailable(
                    f"{self.address} closed the connection with {counted(self._frames.in_flight, 'request')} unanswered"
                )
            self._answers += self._frames.receive(data)
        except OSError as error:
            self.close()
            raise BrokerUnavailable(f"{self.address} did not answer: {self._reason(error, allowed_seconds)}") from error
        except MalformedMessage as error:
            self.close()
            raise MalformedMessage(f"{self.address}: {error}; is a Kafka broker listening there, without TLS?") from error
        except BaseException:
            self.close()
            raise

    def _reason(self, error: OSError, allowed_seconds: float) -> str:
        if isinstance(error, TimeoutError):
            return f"nothing came within {allowed_seconds:g} seconds"
        return (error.strerror or str(error)).lower()

    # Versions.

    def _ask_versions(self) -> dict[int, Versions]:
        response = self._ask_api_versions(API_VERSIONS_VERSION)
        again = versions.second_question(response)
        return versions.versions_of(response if again is None else self._ask_api_versions(again), self.address)

    def _ask_api_versions(self, version: int) -> Any:
        self._send(API_VERSIONS, version, versions.question(version))
        return self.receive()
