"""A connection to one broker, driven by an event loop: requests go out, answers come back as calls, nothing waits.

For whoever lives on the loop already: a broker that talks to another one. `send` may be called at any time; the socket is connected by
the first one, and requests that come before it is ready follow in order. With `negotiate` the broker's versions are asked for first, as
`connection.Connection` does; without it every request names its version, as brokers do among themselves. With `prove` both ends prove
before anything else that they know a secret (`security/scram`).

Each request ends in exactly one call, on the loop's thread: `on_answer(response)` or `on_failure(error)`. Answers come in the order of
the requests. A failure ends the connection, and with it every request that is open: nobody can say whose answer would come next. That
is also so when the oldest request has waited for `timeout` seconds. The owner makes a new connection.

Records in an answer are a view of the receive buffer, and hold until `on_answer` returns.

Not promised: that a request whose answer was lost was not carried out. A host name is looked up where it stands: name brokers by address
if that may take long.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from milepost.client import versions
from milepost.client.addresses import Address
from milepost.client.versions import API_VERSIONS_VERSION, api_of
from milepost.codec.text import counted
from milepost.errors import AuthenticationFailed, BrokerUnavailable, MilepostError
from milepost.net.event_loop import READ, WRITE, EventLoop, Timer
from milepost.protocol.apis import Versions
from milepost.protocol.connection import DEFAULT_MAX_SIZE, ClientConnection
from milepost.protocol.error_codes import error_name
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.message import Message
from milepost.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest

OnAnswer = Callable[[Any], object]
OnFailure = Callable[[MilepostError], object]
RECEIVE_BYTES = 256 << 10
SASL_HANDSHAKE_VERSION, SASL_AUTHENTICATE_VERSION = 1, 2


class Exchange(Protocol):
    """The client's end of a proof. Each method raises AuthenticationFailed when the other end does not know the secret."""

    mechanism: str

    def first(self) -> bytes: ...
    def final(self, server_first: bytes) -> bytes: ...
    def verify(self, server_final: bytes) -> object: ...


class Prove(Protocol):
    """How a connection is proven; one that need not be goes on as it is if the other end takes no proof."""

    @property
    def is_required(self) -> bool: ...
    def exchange(self) -> Exchange: ...


class _Open(NamedTuple):
    """A request that has not ended yet."""

    request: Message | RepeatedFetch
    version: int | None
    highest: int | None
    deadline: float
    on_answer: OnAnswer
    on_failure: OnFailure


class LoopConnection:
    def __init__(
        self,
        loop: EventLoop,
        address: Address,
        *,
        client_id: str | None = "milepost",
        timeout: float = 30.0,
        negotiate: bool = True,
        prove: Prove | None = None,
        max_size: int = DEFAULT_MAX_SIZE,
    ):
        self.loop = loop
        self.address = address
        self.timeout = timeout
        self.versions: dict[int, Versions] | None = None if negotiate else {}
        self._prove = prove
        self._frames = ClientConnection(client_id, max_size)
        self._waiting: deque[_Open] = deque()  # for the connection, or for the broker's versions
        self._sent: deque[_Open] = deque()
        self._out = bytearray()
        self._in = memoryview(bytearray(RECEIVE_BYTES))
        self._interest = WRITE
        self._socket: socket.socket | None = None
        self._is_connected = False
        self._is_proven = False
        self._failure: MilepostError | None = None
        self._timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests may still be sent here."""
        return self._failure is None

    @property
    def in_flight(self) -> int:
        return len(self._waiting) + len(self._sent)

    def send(
        self,
        request: Message | RepeatedFetch,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        *,
        version: int | None = None,
        highest: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """A request in `version`, or in the newest one that both know and that is not above `highest`."""
        if self._failure is not None:
            failure = self._failure
            self.loop.post(lambda: on_failure(failure))
            return
        deadline = self.loop.monotonic() + (self.timeout if timeout is None else timeout)
        self._waiting.append(_Open(request, version, highest, deadline, on_answer, on_failure))
        if self._socket is None:
            self._connect()
        elif self._is_connected:
            self._send_waiting()
        self._watch_time()

    def close(self) -> None:
        """End the connection; requests that are open fail."""
        self._fail(BrokerUnavailable(f"the connection to {self.address} was closed"))

    # Connecting.

    def _connect(self) -> None:
        try:
            family, kind, protocol, _, name = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)[0]
            self._socket = made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            status = made.connect_ex(name)
        except (OSError, UnicodeError, OverflowError) as error:
            self._lost(f"no broker answers at {self.address}", error)
            return
        if status not in (0, errno.EINPROGRESS):
            self._lost(f"no broker answers at {self.address}", OSError(status, errno.errorcode[status]))
            return
        self._interest = WRITE
        self.loop.register(made.fileno(), WRITE, self._on_ready)

    def _on_connected(self) -> None:
        assert self._socket is not None
        status = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._lost(f"no broker answers at {self.address}", OSError(status, errno.errorcode.get(status, str(status))))
            return
        self._is_connected = True
        self._want(READ)
        if self._prove is None:
            self._on_proven()
        else:
            self._start_proof(self._prove)

    def _start_proof(self, prove: Prove) -> None:
        try:
            exchange = prove.exchange()
        except MilepostError as error:
            self._fail(error)
            return

        def on_mechanism(response: Any) -> None:
            if response.error_code == 0:
                self._authenticate(exchange.first(), on_challenge)
            elif prove.is_required:
                self._not_proven(f"it takes no proof: {error_name(response.error_code)} ({response.error_code})")
            else:
                self._on_proven()

        def on_challenge(server_first: bytes) -> None:
            self._authenticate(exchange.final(server_first), on_signature)

        def on_signature(server_final: bytes) -> None:
            exchange.verify(server_final)
            self._on_proven()

        self._ask_first(SaslHandshakeRequest(mechanism=exchange.mechanism), SASL_HANDSHAKE_VERSION, on_mechanism)

    def _authenticate(self, message: bytes, then: Callable[[bytes], object]) -> None:
        def on_answer(response: Any) -> None:
            if response.error_code:
                self._not_proven(response.error_message or error_name(response.error_code))
                return
            try:
                then(bytes(response.auth_bytes))
            except AuthenticationFailed as error:
                self._not_proven(str(error))

        self._ask_first(SaslAuthenticateRequest(auth_bytes=message), SASL_AUTHENTICATE_VERSION, on_answer)

    def _not_proven(self, reason: str) -> None:
        self._fail(AuthenticationFailed(f"{self.address}: this connection is not proven to be of one cluster: {reason}"))

    def _on_proven(self) -> None:
        self._is_proven = True
        if self.versions is None:
            self._ask_versions(API_VERSIONS_VERSION)
        else:
            self._send_waiting()

    def _ask_first(self, request: Message, version: int, on_answer: OnAnswer) -> None:
        """Before everything that waits."""
        deadline = self.loop.monotonic() + self.timeout
        self._write(_Open(request, version, None, deadline, on_answer, lambda error: None), api_of(request).key, version)

    def _ask_versions(self, version: int, *, is_second: bool = False) -> None:
        def on_answer(response: Any) -> None:
            again = None if is_second else versions.second_question(response)
            if again is not None:
                self._ask_versions(again, is_second=True)
                return
            try:
                self.versions = versions.versions_of(response, self.address)
            except MilepostError as error:
                self._fail(error)
                return
            self._send_waiting()

        self._ask_first(versions.question(version), version, on_answer)

    # Sending.

    def _send_waiting(self) -> None:
        while self._waiting and self._is_proven and self.versions is not None and self._failure is None:
            asked = self._waiting.popleft()
            api = api_of(asked.request)
            try:
                version = asked.version
                if version is None:
                    version = versions.choose(api, self.versions, asked.highest, self.address)
                self._write(asked, api.key, version)
            except MilepostError as error:  # of this request alone: nothing of it went out
                asked.on_failure(error)

    def _write(self, asked: _Open, key: int, version: int) -> None:
        _, frame = self._frames.send(key, version, asked.request)
        self._sent.append(asked)
        self._out += frame
        self._flush()

    def _flush(self) -> None:
        if self._socket is None:
            return
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(f"the connection to {self.address} was lost while sending", error)
            return
        self._want(READ | WRITE if self._out else READ)

    def _want(self, events: int) -> None:
        assert self._socket is not None
        if events != self._interest:
            self._interest = events
            self.loop.modify(self._socket.fileno(), events)

    # Receiving.

    def _on_ready(self, events: int) -> None:
        if not self._is_connected:
            self._on_connected()
            return
        if self._out:
            self._flush()
        if self._socket is not None and events & ~WRITE:
            self._receive()

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            size = self._socket.recv_into(self._in)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(f"{self.address} did not answer", error)
            return
        if not size:
            self._fail(
                BrokerUnavailable(f"{self.address} closed the connection with {counted(len(self._sent), 'request')} unanswered")
            )
            return
        try:
            answers = self._frames.receive(self._in[:size])
        except MilepostError as error:
            self._fail(error)
            return
        for answer in answers:
            if self._sent:  # an earlier answer's call may have closed us
                self._sent.popleft().on_answer(answer.body)

    # Ending.

    def _watch_time(self) -> None:
        if self._timer is None and self._failure is None:
            self._timer = self.loop.later(max(0.0, self._oldest() - self.loop.monotonic()), self._on_time)

    def _oldest(self) -> float:
        return min((asked.deadline for asked in (*self._sent, *self._waiting)), default=self.loop.monotonic() + self.timeout)

    def _on_time(self) -> None:
        self._timer = None
        if self._oldest() <= self.loop.monotonic():
            self._fail(BrokerUnavailable(f"{self.address} did not answer: nothing came in time"))
        elif self.in_flight:
            self._watch_time()

    def _lost(self, what: str, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._fail(BrokerUnavailable(f"{what}: {reason.lower()}"))

    def _fail(self, error: MilepostError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            with suppress(KeyError, OSError):  # it failed before it was registered
                self.loop.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None
        open_requests = [*self._sent, *self._waiting]
        self._sent.clear()
        self._waiting.clear()
        for asked in open_requests:
            self.loop.post(lambda asked=asked: asked.on_failure(error))  # type: ignore[misc]
