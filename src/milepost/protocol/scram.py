"""SCRAM-SHA-256 (RFC 5802 and 7677): both ends prove that they know a secret, and neither sends it.

What SaslAuthenticate carries, in turn:

    client first    n,,n=NAME,r=NONCE,to=WHOM
    server first    r=NONCE+MORE,s=SALT,i=ITERATIONS
    client final    c=biws,r=NONCE+MORE,p=PROOF
    server final    v=SIGNATURE, or e=what is wrong

The proof is over all of that, and each end puts a nonce of its own into it: what was overheard is of no use in another exchange. `to` is an
extension, in a place where Kafka has its own: it names the node that the client means to talk to. One that passes an exchange on to
somebody else is found out, for there the name is wrong.

Not promised: that nobody reads or changes what comes behind the exchange. That takes encryption.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache

from milepost.errors import AuthenticationFailed

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
NO_BINDING = b64encode(b"n,,").decode()
MOST_BYTES = 4096

NewNonce = Callable[[], str]


class Credential:
    """What there is to know of a secret with one salt. It takes milliseconds to make, and is kept."""

    def __init__(self, secret: bytes, salt: bytes):
        self.salt = salt
        salted = hashlib.pbkdf2_hmac("sha256", secret, salt, ITERATIONS)
        self.client_key = _hmac(salted, b"Client Key")
        self.server_key = _hmac(salted, b"Server Key")
        self.stored_key = hashlib.sha256(self.client_key).digest()


@lru_cache(16)
def credential(secret: bytes, salt: bytes) -> Credential:
    return Credential(secret, salt)


class ScramClient:
    """`first` goes out, then `final` of what came back, and `verify` looks at the end of it."""

    mechanism = MECHANISM

    def __init__(self, name: str, secret: bytes, to: str, new_nonce: NewNonce):
        self._secret = secret
        self._nonce = new_nonce()
        self._bare = f"n={name},r={self._nonce},to={to}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        said = attributes(server_first)
        nonce, iterations = said.get("r", ""), said.get("i", "")
        if "e" in said:
            raise AuthenticationFailed(f"the other end refused: {said['e'][:100]}")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the other end did not add to the nonce")
        if iterations != str(ITERATIONS):
            raise AuthenticationFailed(f"the other end asks for {iterations[:20]} iterations; {ITERATIONS} are usual here")
        known = credential(self._secret, _decoded(said.get("s", "")))
        without_proof = f"c={NO_BINDING},r={nonce}"
        message = b",".join((self._bare.encode(), server_first, without_proof.encode()))
        self._signature = _hmac(known.server_key, message)
        proof = _xor(known.client_key, _hmac(known.stored_key, message))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """That the other end knows the secret too."""
        said = attributes(server_final)
        if not hmac.compare_digest(_decoded(said.get("v", "")), self._signature):
            raise AuthenticationFailed(f"the other end does not know the secret: {said.get('e', 'another signature')[:100]}")


class ScramServer:
    """`first` answers the first message and `final` the last one. Both raise what is wrong."""

    def __init__(self, known: Credential, me: str, new_nonce: NewNonce):
        self._known = known
        self._me = me
        self._new_nonce = new_nonce
        self._nonce = ""
        self._before = b""
        self.name: str | None = None
        """Who the client says it is; true once `final` has returned."""

    def first(self, client_first: bytes) -> bytes:
        header, _, bare = client_first.partition(b",,")
        said = attributes(bare)
        if header != b"n" or not said.get("n") or not said.get("r"):
            raise AuthenticationFailed("the first message is not n,,n=NAME,r=NONCE")
        if said.get("to") != self._me:
            raise AuthenticationFailed(f"the exchange is meant for {said.get('to', 'nobody')[:20]!r}, and this is {self._me}")
        self.name = said["n"]
        self._nonce = said["r"] + self._new_nonce()
        answer = f"r={self._nonce},s={b64encode(self._known.salt).decode()},i={ITERATIONS}".encode()
        self._before = bare + b"," + answer
        return answer

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.rpartition(b",p=")
        said = attributes(without_proof)
        if said.get("c") != NO_BINDING or said.get("r") != self._nonce:
            raise AuthenticationFailed("the last message is of another exchange")
        message = self._before + b"," + without_proof
        key = _xor(_decoded(proof.decode("ascii", "replace")), _hmac(self._known.stored_key, message))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._known.stored_key):
            raise AuthenticationFailed(f"{str(self.name)[:20]!r} does not know the secret of this cluster")
        return b"v=" + b64encode(_hmac(self._known.server_key, message))


def attributes(message: bytes) -> dict[str, str]:
    if len(message) > MOST_BYTES:
        raise AuthenticationFailed(f"a message of {len(message)} bytes; {MOST_BYTES} are the most")
    pairs = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in pairs}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("a message holds what is not base64") from None


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise AuthenticationFailed(f"a proof of {len(one)} bytes; {len(other)} are due")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
