"""How brokers of one cluster prove to each other that they are: a secret that lives in ZooKeeper, and SCRAM over it (`security/scram`).

A client that can read ZooKeeper is trusted: it could make itself the controller there. One that can only reach a listener is not.
Both ends of a connection prove that they know the secret, once, before its first request; from then on the connection is a
broker's. The secret is made by the first broker of the cluster, from 32 random bytes, and read by each at the start of its session.

A broker names itself by its id, and the broker that it means to talk to: an exchange that is passed on to another broker fails there.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable

from milepost.errors import AuthenticationFailed, BrokerUnavailable
from milepost.security.scram import ITERATIONS, SHA_256, ScramClient, ScramServer, credential_of, kept_salted

logger = logging.getLogger("milepost.replica")

SECRET_BYTES = 32


class BrokerProof:
    def __init__(self, broker_id: int, *, is_required: bool = True):
        self.broker_id = broker_id
        self.is_required = is_required
        self._secret: bytes | None = None
        self._salt = b""

    def warn_if_open(self, listeners: Iterable[str]) -> None:
        if not self.is_required:
            logger.warning(
                "milepost.broker.proof.required=false: any client of listener %s that claims to be a broker or the controller of "
                "this cluster is believed; needed only while brokers of Apache Kafka are members",
                " or ".join(sorted(listeners)),
            )

    def take(self, secret: bytes, salt: bytes) -> None:
        self._secret, self._salt = secret, salt

    def towards(self, broker_id: int) -> ProofTowards:
        return ProofTowards(self, broker_id)

    def client(self, to: int) -> ScramClient:
        return ScramClient(str(self.broker_id), self._known(), str(to))

    def server(self) -> ScramServer:
        salted = kept_salted(SHA_256, self._known(), self._salt, ITERATIONS)
        known = credential_of(SHA_256, salted, self._salt, ITERATIONS)
        return ScramServer(lambda name: known, me=str(self.broker_id))

    def _known(self) -> bytes:
        if self._secret is None:
            raise BrokerUnavailable(f"broker {self.broker_id} has not read the secret of its cluster yet")
        return self._secret


class ProofTowards:
    """The proof of one connection."""

    def __init__(self, proof: BrokerProof, broker_id: int):
        self._proof = proof
        self._broker_id = broker_id

    @property
    def is_required(self) -> bool:
        return self._proof.is_required

    def exchange(self) -> ScramClient:
        return self._proof.client(self._broker_id)


def broker_id_of(name: str | None) -> int:
    """The broker that proved itself under a name."""
    if name is None or not (name.isascii() and name.isdecimal() and len(name) <= 10):
        raise AuthenticationFailed(f"{str(name)[:20]!r} is no id of a broker")
    return int(name)


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)
