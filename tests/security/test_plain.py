from __future__ import annotations

import pytest

from milepost.errors import AuthenticationFailed
from milepost.security.plain import PlainServer

USERS = {"alice": "a secret", "Jürgen": "geheim"}


@pytest.mark.parametrize("message", [b"\0alice\0a secret", b"alice\0alice\0a secret", "\0Jürgen\0geheim".encode()])
def test_right_password_names_the_user(message):
    server = PlainServer(USERS)
    assert server.answer(message) == b""
    assert server.name in USERS


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"\0alice\0guess", "invalid credentials"),
        (b"\0bob\0a secret", "invalid credentials"),
        (b"bob\0alice\0a secret", "for oneself"),
        (b"", "is not NUL"),
        (b"\0alice\0", "is not NUL"),
        (b"\0\0a secret", "is not NUL"),
        (b"\0alice\0a secret\0", "is not NUL"),
        (b"\0\xff\0x", "invalid credentials"),
        (b"\0alice\0" + b"x" * 5000, "bytes"),
    ],
)
def test_anything_else_is_refused(message, fault):
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationFailed, match=fault):
        server.answer(message)
    assert server.name is None
