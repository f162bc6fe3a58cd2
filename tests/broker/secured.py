"""Brokers with listeners of every protocol, and clients that log in."""

from __future__ import annotations

import ssl
from pathlib import Path

from milepost.broker.broker import Broker
from milepost.protocol.messages import (
    AlterUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from milepost.security.scram import TYPES, ScramClient, salted
from tests.broker.wire import Wire
from tests.security.certificates import Identity, authority, tls_settings

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0"
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin secret" user_admin="admin secret" user_alice="a secret";'
)


def settings(directory: Path, **more: str) -> dict[str, str]:
    return {
        "listeners": LISTENERS,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
        **tls_settings(directory / "tls"),
        **more,
    }


def address(broker: Broker, listener: str) -> str:
    host, port = broker.advertised(listener)
    return f"{host}:{port}"


def client_context(identity: Identity | None = None, directory: Path | None = None) -> ssl.SSLContext:
    """Of a client that trusts the authority of tests, and shows a certificate if it has one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().pem)
    if identity is not None and directory is not None:
        context.load_cert_chain(identity.write(directory / "client.pem"))
    return context


def wire_to(broker: Broker, listener: str, tls: ssl.SSLContext | None = None) -> Wire:
    return Wire(address(broker, listener), tls=tls or (client_context() if listener.endswith("SSL") else None))


def channel_of(broker: Broker, wire: Wire):
    """The broker's end of a connection."""
    port = wire.socket.getsockname()[1]
    channels = [channel for processor in broker.server.processors for channel in processor.channels.values()]
    return next(channel for channel in channels if channel.peer.endswith(f":{port}"))


def say(wire: Wire, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return wire.ask(SaslAuthenticateRequest(auth_bytes=message), version)


def log_in_plainly(wire: Wire, user: str = "alice", password: str = "a secret") -> SaslAuthenticateResponse:
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    return say(wire, f"\0{user}\0{password}".encode())


def log_in_by_scram(wire: Wire, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> SaslAuthenticateResponse:
    assert wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    client = ScramClient(user, password.encode(), None, mechanism=mechanism)
    last = say(wire, client.final(bytes(say(wire, client.first()).auth_bytes)))
    if not last.error_code:
        client.verify(bytes(last.auth_bytes))
    return last


def set_password(wire: Wire, user: str, password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> int:
    secret = salted(mechanism, password.encode(), b"salt", iterations)
    upsertion = AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=TYPES[mechanism], iterations=iterations, salt=b"salt", salted_password=secret
    )
    (result,) = wire.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0).results
    assert result.user == user
    return result.error_code
