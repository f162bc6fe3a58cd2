"""A connection as a broker of the cluster makes it: proven with the secret that is in ZooKeeper."""

from __future__ import annotations

from milepost.cluster.zookeeper import znodes
from milepost.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from milepost.security.scram import ScramClient
from tests.broker.wire import Wire
from tests.cluster.asking import zookeeper_client


def secret_of(zookeeper: str) -> bytes:
    with zookeeper_client(zookeeper) as client:
        secret = znodes.parse_secret(client.get("/milepost/secret")[0])
    assert secret is not None
    return secret


def prove(wire: Wire, secret: bytes, broker_id: int, to: int) -> None:
    assert wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    exchange = ScramClient(str(broker_id), secret, str(to), lambda: "nonce-of-a-test")
    first = wire.ask(SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
    assert first.error_code == 0, first.error_message
    last = wire.ask(SaslAuthenticateRequest(auth_bytes=exchange.final(bytes(first.auth_bytes))), 2)
    assert last.error_code == 0, last.error_message
    exchange.verify(bytes(last.auth_bytes))
