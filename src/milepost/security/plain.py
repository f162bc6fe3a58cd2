"""PLAIN (RFC 4616): a name and a password, as they are. Only behind encryption is that a secret.

    [who to act for] NUL name NUL password

The users stand in the configuration of the listener (`security/jaas`). A name that is not there costs as much as a wrong password.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

from milepost.errors import AuthenticationFailed

INVALID = "invalid credentials"
MOST_BYTES = 4096
NOBODYS_PASSWORD = secrets.token_bytes(32)


class PlainServer:
    def __init__(self, passwords: Mapping[str, str]):
        self._passwords = passwords
        self.name: str | None = None
        """Who the client is, once `answer` has returned."""

    def answer(self, message: bytes) -> bytes:
        if len(message) > MOST_BYTES:
            raise AuthenticationFailed(f"a message of {len(message)} bytes; {MOST_BYTES} are the most")
        parts = message.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("the message is not NUL, name, NUL, password")
        name = parts[1].decode("utf-8", "replace")
        known = self._passwords.get(name)
        password = NOBODYS_PASSWORD if known is None else known.encode()
        is_right = hmac.compare_digest(password, parts[2])
        if known is None or not is_right:
            raise AuthenticationFailed(INVALID)
        if parts[0] not in (b"", parts[1]):
            raise AuthenticationFailed("a login is for oneself: the name to act for is another")
        self.name = name
        return b""
