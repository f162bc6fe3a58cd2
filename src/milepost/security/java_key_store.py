"""JKS, the key store that Java had before PKCS12. All numbers are big-endian, texts have their length in two bytes before them.

    magic FEEDFEED · version 2 · count (4)
    a key            1 · alias · time (8) · length (4), EncryptedPrivateKeyInfo (DER) · count (4), certificates
    a certificate    2 · alias · time (8) · certificate
    certificate      type · length (4), X.509 (DER)
    digest (20)      SHA-1 of the password in UTF-16, "Mighty Aphrodite", and everything before

A key is enciphered by a way of Java's own: 20 bytes of salt, the key XORed with SHA-1 of password and salt, of password and that, and so
on, and SHA-1 of password and key. Read by hand: the library that does it needs one that does not load on Python 3.12.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
KEY, CERTIFICATE = 1, 2
DIGEST_SIZE = SALT_SIZE = 20
MOST_CERTIFICATES = 10_000


class JavaKeyStore(NamedTuple):
    keys: list[tuple[bytes, list[bytes]]]
    """Enciphered, each with its certificates."""
    certificates: list[bytes]


def is_java_key_store(content: bytes) -> bool:
    """Since Java 9 a file by that name is PKCS12 as a rule."""
    return content.startswith(MAGIC)


def read_java_key_store(content: bytes, password: str) -> JavaKeyStore:
    body, digest = content[:-DIGEST_SIZE], content[-DIGEST_SIZE:]
    expected = hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    if not hmac.compare_digest(digest, expected):
        raise ValueError("the password is another, or the file is damaged")
    fields = Fields(body, len(MAGIC))
    if fields.number() != 2:
        raise ValueError("it is not of version 2")
    found = JavaKeyStore([], [])
    for _ in range(fields.count()):
        kind = fields.number()
        fields.text()
        fields.take(8)
        if kind == KEY:
            enciphered = fields.take(fields.number())
            found.keys.append((enciphered, [fields.certificate() for _ in range(fields.count())]))
        elif kind == CERTIFICATE:
            found.certificates.append(fields.certificate())
        else:
            raise ValueError(f"an entry is of kind {kind}")
    return found


class Fields:
    def __init__(self, content: bytes, at: int):
        self._content = content
        self._at = at

    def take(self, size: int) -> bytes:
        end = self._at + size
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError("it ends early")
        taken, self._at = self._content[self._at : end], end
        return taken

    def number(self) -> int:
        number: int = struct.unpack(">I", self.take(4))[0]
        return number

    def count(self) -> int:
        count = self.number()
        if count > MOST_CERTIFICATES:
            raise ValueError(f"it has {count} entries")
        return count

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def certificate(self) -> bytes:
        self.text()
        return self.take(self.number())


def deciphered(enciphered: bytes, password: str) -> bytes:
    """The key, as PKCS8 (DER)."""
    protected = inner_octets(enciphered)
    salt, body, check = protected[:SALT_SIZE], protected[SALT_SIZE:-DIGEST_SIZE], protected[-DIGEST_SIZE:]
    secret = password.encode("utf-16-be")
    stream, block = b"", salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise ValueError("the password of the key is another")
    return key


def inner_octets(info: bytes) -> bytes:
    """EncryptedPrivateKeyInfo is SEQUENCE { algorithm, OCTET STRING }."""
    tag, at, end = element(info, 0)
    _, _, after_algorithm = element(info, at)
    inner, start, stop = element(info, after_algorithm)
    if (tag, inner) != (0x30, 0x04) or stop > end:
        raise ValueError("a key is not enciphered as Java does it")
    return info[start:stop]


def element(der: bytes, at: int) -> tuple[int, int, int]:
    """Its tag, where its content begins, and where it ends."""
    if at + 2 > len(der):
        raise ValueError("a key ends early")
    tag, size = der[at], der[at + 1]
    at += 2
    if size & 0x80:
        width = size & 0x7F
        size = int.from_bytes(der[at : at + width], "big")
        at += width
    return tag, at, at + size
