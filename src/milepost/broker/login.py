"""Logging in by SASL, on listeners that want it: what KafkaServer's SaslServerAuthenticator does.

    ApiVersions         as often as the client likes
    SaslHandshake       the mechanism. 33 UNSUPPORTED_SASL_MECHANISM names those there are
    SaslAuthenticate    a message of that mechanism, until it is through. After a SaslHandshake of version 0 the messages come as frames by
                        themselves, without a header
    anything else       before that closes the connection

Who fails is told so (58 SASL_AUTHENTICATION_FAILED) after `connection.failed.authentication.delay.ms`, and not what was wrong; then the
connection is closed. Where `connections.max.reauth.ms` is set, a client logs in again on its connection before that time is over, as
the same user; a connection whose login has ended is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.errors import AuthenticationFailed, MilepostError
from milepost.protocol import frames, headers
from milepost.protocol.apis import API_VERSIONS, BY_KEY
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from milepost.security.jaas import parse_jaas
from milepost.security.plain import PlainServer
from milepost.security.principal import USER, KafkaPrincipal
from milepost.security.scram import HASHES, ScramCredential, ScramServer

if TYPE_CHECKING:
    from milepost.config.security import ListenerSecurity
    from milepost.loop import Loop
    from milepost.net.channel import Channel
    from milepost.net.request import Request
    from milepost.net.request_metrics import RequestMetricsTable

logger = logging.getLogger("milepost.login")

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
SIZE_BYTES = 4


class LoginBroker(Protocol):
    @property
    def loop(self) -> Loop: ...
    @property
    def request_metrics(self) -> RequestMetricsTable: ...
    def scram_credential(self, mechanism: str, user: str) -> ScramCredential | None: ...


class Exchange(Protocol):
    """The server's end of a mechanism."""

    @property
    def user(self) -> str | None:
        """Who the client is, once it is through."""

    def answer(self, message: bytes) -> bytes:
        """To the client's next message. AuthenticationFailed if that is wrong."""


class PlainExchange:
    def __init__(self, passwords: Mapping[str, str]):
        self._server = PlainServer(passwords)

    @property
    def user(self) -> str | None:
        return self._server.name

    def answer(self, message: bytes) -> bytes:
        return self._server.answer(message)


class ScramExchange:
    def __init__(self, server: ScramServer):
        self._server = server
        self.user: str | None = None

    def answer(self, message: bytes) -> bytes:
        if self._server.name is None:
            return self._server.first(message)
        answer = self._server.final(message)
        self.user = self._server.name
        return answer


class LoginGate:
    """Of one listener."""

    def __init__(self, listener: str, security: ListenerSecurity, broker: LoginBroker):
        config = security.config
        self.broker = broker
        self.mechanisms = config.sasl_enabled_mechanisms
        self.max_request_bytes = config.sasl_server_max_receive_size
        self.delay_seconds = config.connection_failed_authentication_delay_ms / 1000
        self.lifetime_ms = config.connections_max_reauth_ms
        property_name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
        plain = security.users.get("PLAIN")
        self._passwords = {} if plain is None else parse_jaas(property_name, plain.value).users

    def exchange(self, mechanism: str) -> Exchange:
        if mechanism in HASHES:
            return ScramExchange(ScramServer(lambda user: self.broker.scram_credential(mechanism, user), mechanism))
        return PlainExchange(self._passwords)

    def open(self, channel: Channel) -> None:
        """A connection that has to log in."""
        channel.principal = None
        channel.login = SaslLogin(self, channel)
        channel.max_request_bytes = self.max_request_bytes


class SaslLogin:
    """Of one connection."""

    def __init__(self, gate: LoginGate, channel: Channel):
        self._gate = gate
        self._channel = channel
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._is_raw = False

    def takes(self, request: Request) -> bool:
        if self._is_raw:
            self._take_raw(request)
            return True
        key = int.from_bytes(request.frame[:2], "big")
        if key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            if self._channel.principal is not None or key == API_VERSIONS:
                return False
            name = BY_KEY[key].name if key in BY_KEY else f"API {key}"
            request.close(f"{name} came before a login, which this listener wants")
            return True
        try:
            header = headers.read_request_header(request.frame)
            if not BY_KEY[key].serves(header.api_version):
                raise AuthenticationFailed(f"{BY_KEY[key].name} version {header.api_version} is not served")
            body, _ = frames.decode_request(header, request.frame)
        except MilepostError as error:
            request.close(str(error))
            return True
        request.meter = self._gate.broker.request_metrics.meter(BY_KEY[key].name, header.api_version)
        if isinstance(body, SaslHandshakeRequest):
            self._handshake(request, header, body)
        else:
            self._authenticate(request, header, body)
        return True

    def _handshake(self, request: Request, header: headers.RequestHeader, body: SaslHandshakeRequest) -> None:
        mechanisms = list(self._gate.mechanisms)
        if body.mechanism not in mechanisms or (self._mechanism and body.mechanism != self._mechanism):
            logger.warning("%s: asks for mechanism %.30r; served are %s", self._channel.peer, body.mechanism, ", ".join(mechanisms))
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
            self._answer(request, header, response)
            return
        self._exchange = self._gate.exchange(body.mechanism)
        self._mechanism = body.mechanism
        self._is_raw = header.api_version == 0
        self._answer(request, header, SaslHandshakeResponse(mechanisms=mechanisms))

    def _authenticate(self, request: Request, header: headers.RequestHeader, body: SaslAuthenticateRequest) -> None:
        if self._exchange is None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake comes first", auth_bytes=b""
            )
            self._answer(request, header, response)
            return
        try:
            answer = self._step(bytes(body.auth_bytes))
        except AuthenticationFailed as error:
            sentence = REFUSED.format(self._mechanism)
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=sentence, auth_bytes=b""
            )
            self._fail(error, lambda reason: self._end(request, header, response, reason))
            return
        lifetime = self._gate.lifetime_ms if self._exchange is None else 0
        self._answer(request, header, SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime))

    def _take_raw(self, request: Request) -> None:
        try:
            answer = self._step(bytes(request.frame))
        except AuthenticationFailed as error:
            self._fail(error, request.close)
            return
        self._is_raw = self._exchange is not None
        request.send((len(answer).to_bytes(SIZE_BYTES, "big") + answer,))

    def _step(self, message: bytes) -> bytes:
        exchange = self._exchange
        assert exchange is not None, "a mechanism was agreed on"
        answer = exchange.answer(message)
        if exchange.user is not None:
            self._exchange = None
            self._succeed(KafkaPrincipal(USER, exchange.user))
        return answer

    def _succeed(self, principal: KafkaPrincipal) -> None:
        channel = self._channel
        if channel.principal not in (None, principal):
            raise AuthenticationFailed(f"{channel.principal} logs in again as {principal}: a connection keeps its user")
        channel.principal = principal
        channel.max_request_bytes = channel.processor.max_request_bytes
        if self._gate.lifetime_ms:
            channel.login_ends = self._gate.broker.loop.monotonic() + self._gate.lifetime_ms / 1000

    def _fail(self, error: AuthenticationFailed, end: Callable[[str], object]) -> None:
        """Later, so that guessing takes its time; nothing else is read from the connection meanwhile."""
        self._exchange = None

        def end_if_open() -> None:
            if self._channel.is_open:
                end(f"the login failed: {error}")

        self._gate.broker.loop.later(self._gate.delay_seconds, end_if_open)

    def _end(self, request: Request, header: headers.RequestHeader, response: object, reason: str) -> None:
        self._answer(request, header, response)
        self._gate.broker.loop.post(lambda: self._channel.processor.expel(self._channel, reason))

    def _answer(self, request: Request, header: headers.RequestHeader, response: object) -> None:
        request.send((frames.encode_response(header.api_key, header.api_version, header.correlation_id, response),))
