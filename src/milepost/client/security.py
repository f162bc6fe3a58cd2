"""How a client connects to a cluster that is secured, from Kafka's own properties of clients.

    security.protocol           PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
    ssl.truststore.*            whom it trusts; without one those that the machine trusts
    ssl.keystore.*              who it is itself, where brokers want a certificate
    sasl.mechanism              PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
    sasl.jaas.config            with the user's name and password

A property that would have to do with this and is not known is an error: a client that left it out might send its password in plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from milepost.config.definition import Given, Secret
from milepost.config.security import SecurityConfig
from milepost.errors import AuthenticationFailed, InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass
from milepost.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from milepost.security.jaas import parse_jaas
from milepost.security.scram import HASHES, ScramClient

if TYPE_CHECKING:
    import socket
    import ssl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", *HASHES)
PREFIXES = ("security.", "ssl.", "sasl.")
OWN = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


class Asking(Protocol):
    """What a login needs of a connection."""

    def ask(self, request: Any, *, highest: int | None = None) -> Any: ...


@frozen_dataclass
class Login:
    mechanism: str
    user: str
    password: str

    def log_in(self, connection: Asking) -> None:
        """AuthenticationFailed with what the broker says, or because it does not know the password itself."""
        answer = connection.ask(SaslHandshakeRequest(mechanism=self.mechanism), highest=HANDSHAKE_VERSION)
        if answer.error_code:
            served = ", ".join(answer.mechanisms) or "no mechanism"
            raise AuthenticationFailed(f"the broker does not serve sasl.mechanism={self.mechanism} there; it serves {served}")
        if self.mechanism == "PLAIN":
            self._say(connection, f"\0{self.user}\0{self.password}".encode())
            return
        exchange = ScramClient(self.user, self.password.encode(), None, mechanism=self.mechanism)
        first = self._say(connection, exchange.first())
        exchange.verify(self._say(connection, exchange.final(first)))

    def _say(self, connection: Asking, message: bytes) -> bytes:
        answer = connection.ask(SaslAuthenticateRequest(auth_bytes=message), highest=AUTHENTICATE_VERSION)
        if answer.error_code:
            raise AuthenticationFailed(f"{self.user} is not let in: {answer.error_message or f'error {answer.error_code}'}")
        return bytes(answer.auth_bytes)


@frozen_dataclass
class ClientSecurity:
    """Of plain text if neither is there."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None

    def encrypted(self, connected: socket.socket, host: str) -> socket.socket:
        """AuthenticationFailed where the broker is not who it should be; OSError like any other socket."""
        if self.tls is None:
            return connected
        import ssl  # which takes a while to import, and most clients need it not

        try:
            return self.tls.wrap_socket(connected, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(f"{host} does not prove that it is the broker: {error.verify_message}") from None
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            raise AuthenticationFailed(f"{host} does not speak TLS as this client does: {reason}") from None


PLAIN_TEXT = ClientSecurity()


@frozen_dataclass
class SecuritySettings:
    """The properties themselves, for those who connect in another process; shown they show nothing."""

    given: tuple[Given, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> SecuritySettings:
        """Those that make sense: what does not raises here and now."""
        client_security(properties)
        return cls(tuple(Given(name, Secret(value)) for name, value in properties.items() if name.startswith(PREFIXES)))

    def security(self) -> ClientSecurity:
        return client_security({name: secret.value for name, secret in self.given})


NO_SECURITY = SecuritySettings()


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """`properties`: of a client; those that have nothing to do with this are passed over."""
    given = {name: value for name, value in properties.items() if name.startswith(PREFIXES)}
    unknown = sorted(name for name in given if name not in OWN and name not in SecurityConfig.names())
    if unknown:
        raise InvalidConfiguration(f"{', '.join(unknown)}: milepost's clients do not know this: take it out.", unknown[0])
    if given and "security.protocol" not in given:
        raise fault(next(iter(given)), f"has no effect without security.protocol: give one of {', '.join(PROTOCOLS)}")
    protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise fault("security.protocol", f"{protocol!r} is none; give one of {', '.join(PROTOCOLS)}")
    config = SecurityConfig.parse({name: value for name, value in given.items() if name not in OWN})
    login = login_of(given) if protocol.startswith("SASL") else None
    if not protocol.endswith("SSL"):
        return ClientSecurity(None, login)
    from milepost.security.tls import client_context

    return ClientSecurity(client_context(config), login)


def login_of(given: Mapping[str, str]) -> Login:
    mechanism = given.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise fault("sasl.mechanism", f"{mechanism!r} is not served; give one of {', '.join(MECHANISMS)}")
    if "sasl.jaas.config" not in given:
        raise fault("sasl.jaas.config", "it is not there, and says who logs in")
    options = parse_jaas("sasl.jaas.config", given["sasl.jaas.config"]).options
    for name in ("username", "password"):
        if name not in options:
            raise fault("sasl.jaas.config", f"there is no {name} in it")
    return Login(mechanism, options["username"], options["password"])


def fault(name: str, reason: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"{name}: {reason}.", name)
