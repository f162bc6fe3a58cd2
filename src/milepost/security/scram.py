"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802 and 7677): both ends prove that they know a secret, and neither sends it.

What SaslAuthenticate carries, in turn:

    client first    n,,n=NAME,r=NONCE            brokers among each other: ,to=WHOM behind it
    server first    r=NONCE+MORE,s=SALT,i=ITERATIONS
    client final    c=biws,r=NONCE+MORE,p=PROOF
    server final    v=SIGNATURE, or e=what is wrong

The proof is over all of that, and each end puts a nonce of its own into it: what was overheard is of no use in another exchange. `to` is an
extension, in a place where Kafka has its own: it names the node that the client means to talk to. One that passes an exchange on to
somebody else is found out, for there the name is wrong.

Of a user the server keeps no password, but what proves that the other end knows it: with that alone nobody can log in. A user that is not
there gets an exchange like the others, with a salt that stays the same for the name, and costs as much: it fails at its end.

Not promised: that nobody reads or changes what comes behind the exchange. That takes encryption.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache

from milepost.errors import AuthenticationFailed
from milepost.frozen_dataclass import frozen_dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""By mechanism."""
SHA_256 = "SCRAM-SHA-256"
TYPES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""On the wire."""
MECHANISM_OF = {number: name for name, number in TYPES.items()}
ITERATIONS, MOST_ITERATIONS = 4096, 16384
MOST_BYTES = 4096
NONCE_BYTES = 18
NO_BINDING = b64encode(b"n,,").decode()

NewNonce = Callable[[], str]
INVALID = "invalid credentials"
"""All that is said to whoever fails: not what was wrong."""


@frozen_dataclass
class ScramCredential:
    """What a server knows of a user's secret."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def as_text(known: ScramCredential) -> str:
    """As Kafka keeps it among the settings of a user."""
    salt, stored_key, server_key = (b64encode(part).decode() for part in (known.salt, known.stored_key, known.server_key))
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={known.iterations}"


def credential_from(text: str) -> ScramCredential | None:
    """None for a text that is none."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key"))
        return ScramCredential(salt, int(parts["iterations"]), stored_key, server_key)
    except (KeyError, ValueError):
        return None


def credentials_from(settings: Mapping[str, str]) -> dict[str, ScramCredential]:
    """Those among the settings of a user, by mechanism."""
    found = {name: credential_from(settings[name]) for name in HASHES if name in settings}
    return {name: known for name, known in found.items() if known is not None}


Find = Callable[[str], "ScramCredential | None"]
"""What is known of a user."""


def salted(mechanism: str, secret: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], secret, salt, iterations)


def credential_of(mechanism: str, salted_secret: bytes, salt: bytes, iterations: int) -> ScramCredential:
    stored_key = hashlib.new(HASHES[mechanism], _hmac(mechanism, salted_secret, b"Client Key")).digest()
    return ScramCredential(salt, iterations, stored_key, _hmac(mechanism, salted_secret, b"Server Key"))


@lru_cache(16)
def kept_salted(mechanism: str, secret: bytes, salt: bytes, iterations: int) -> bytes:
    """It takes milliseconds."""
    return salted(mechanism, secret, salt, iterations)


def new_nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


class ScramClient:
    """`first` goes out, then `final` of what came back, and `verify` looks at the end of it. `to`: the one that is meant to be there."""

    def __init__(self, name: str, secret: bytes, to: str | None, new_nonce: NewNonce = new_nonce, mechanism: str = SHA_256):
        self.mechanism = mechanism
        self._secret = secret
        self._nonce = new_nonce()
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={self._nonce}" + ("" if to is None else f",to={to}")
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
        if not iterations.isdecimal() or len(iterations) > 6 or not ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise AuthenticationFailed(
                f"the other end asks for {iterations[:20]} iterations; {ITERATIONS} to {MOST_ITERATIONS} are done here"
            )
        mechanism = self.mechanism
        secret = kept_salted(mechanism, self._secret, decoded(said.get("s", "")), int(iterations))
        client_key = _hmac(mechanism, secret, b"Client Key")
        stored_key = hashlib.new(HASHES[mechanism], client_key).digest()
        without_proof = f"c={NO_BINDING},r={nonce}"
        message = b",".join((self._bare.encode(), server_first, without_proof.encode()))
        self._signature = _hmac(mechanism, _hmac(mechanism, secret, b"Server Key"), message)
        proof = _xor(client_key, _hmac(mechanism, stored_key, message))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """That the other end knows the secret too."""
        said = attributes(server_final)
        if not hmac.compare_digest(decoded(said.get("v", "")), self._signature):
            raise AuthenticationFailed(f"the other end does not know the secret: {said.get('e', 'another signature')[:100]}")


class ScramServer:
    """`first` answers the first message and `final` the last one. Both raise what is wrong. `me`: whom the client has to mean, if it has
    to mean somebody."""

    def __init__(self, find: Find, mechanism: str = SHA_256, new_nonce: NewNonce = new_nonce, me: str | None = None):
        self._find = find
        self._mechanism = mechanism
        self._new_nonce = new_nonce
        self._me = me
        self._known: ScramCredential | None = None
        self._header = b""
        self._nonce = ""
        self._before = b""
        self.name: str | None = None
        """Who the client says it is; true once `final` has returned."""

    def first(self, client_first: bytes) -> bytes:
        parts = client_first.split(b",", 2)
        said = attributes(parts[-1])
        if len(parts) < 3 or parts[0] not in (b"n", b"y") or not said.get("n") or not said.get("r"):
            raise AuthenticationFailed("the first message is not n,,n=NAME,r=NONCE")
        if self._me is not None and said.get("to") != self._me:
            raise AuthenticationFailed(f"the exchange is meant for {said.get('to', 'nobody')[:20]!r}, and this is {self._me}")
        if "tokenauth" in said:
            raise AuthenticationFailed("delegation tokens are not served")
        self.name = unescaped(said["n"])
        if parts[1] and unescaped(parts[1].removeprefix(b"a=").decode("utf-8", "replace")) != self.name:
            raise AuthenticationFailed("a login is for oneself: the name to act for is another")
        self._header = b",".join((*parts[:2], b""))
        self._known = self._find(self.name)
        shown = self._known or nobody(self._mechanism, self.name)
        self._nonce = said["r"] + self._new_nonce()
        answer = f"r={self._nonce},s={b64encode(shown.salt).decode()},i={shown.iterations}".encode()
        self._before = parts[2] + b"," + answer
        return answer

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.rpartition(b",p=")
        said = attributes(without_proof)
        if said.get("c") != b64encode(self._header).decode() or said.get("r") != self._nonce:
            raise AuthenticationFailed("the last message is of another exchange")
        mechanism, known = self._mechanism, self._known or nobody(self._mechanism, self.name or "")
        message = self._before + b"," + without_proof
        key = _xor(decoded(proof.decode("ascii", "replace")), _hmac(mechanism, known.stored_key, message))
        is_right = hmac.compare_digest(hashlib.new(HASHES[mechanism], key).digest(), known.stored_key)
        if not is_right or self._known is None:
            raise AuthenticationFailed(INVALID)
        return b"v=" + b64encode(_hmac(mechanism, known.server_key, message))


NOBODYS = secrets.token_bytes(32)


def nobody(mechanism: str, name: str) -> ScramCredential:
    """Of a user that is not there: always the same salt, and keys that nothing fits."""
    salt = hmac.digest(NOBODYS, name.encode(), "sha256")[:20]
    size = hashlib.new(HASHES[mechanism]).digest_size
    return ScramCredential(salt, ITERATIONS, secrets.token_bytes(size), secrets.token_bytes(size))


def attributes(message: bytes) -> dict[str, str]:
    if len(message) > MOST_BYTES:
        raise AuthenticationFailed(f"a message of {len(message)} bytes; {MOST_BYTES} are the most")
    pairs = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in pairs}


def unescaped(name: str) -> str:
    """A comma and an equals sign in a name are written =2C and =3D."""
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        raise AuthenticationFailed("a name holds = that is neither =2C nor =3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("a message holds what is not base64") from None


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise AuthenticationFailed(f"a proof of {len(one)} bytes; {len(other)} are due")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
