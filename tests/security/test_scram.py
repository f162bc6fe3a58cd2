"""SCRAM as RFC 5802 and 7677 have it, and everything that can be wrong with it."""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import AuthenticationFailed
from milepost.security.scram import (
    ScramClient,
    ScramServer,
    as_text,
    credential_from,
    credential_of,
    nobody,
    salted,
)

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def known(mechanism: str, password: bytes, salt: bytes = b"salt", iterations: int = 4096):
    return credential_of(mechanism, salted(mechanism, password, salt, iterations), salt, iterations)


def exchange(client: ScramClient, server: ScramServer) -> None:
    client.verify(server.final(client.final(server.first(client.first()))))


def test_example_of_rfc_7677():
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    server = ScramServer(
        lambda user: known("SCRAM-SHA-256", b"pencil", salt), "SCRAM-SHA-256", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.final(last) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client = ScramClient("user", b"pencil", None, lambda: "rOprNGfwEbeRWgbNEkqO")
    client.first()
    assert client.final(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") == last


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "a=b,c", "Jürgen"])
def test_right_secret_proves_both_ends(mechanism, name):
    server = ScramServer({name: known(mechanism, b"secret", iterations=8192)}.get, mechanism)
    exchange(ScramClient(name, b"secret", None, mechanism=mechanism), server)
    assert server.name == name


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_wrong_secret_and_unknown_user_fail_alike(mechanism, name):
    server = ScramServer({"alice": known(mechanism, b"secret")}.get, mechanism)
    with pytest.raises(AuthenticationFailed, match=r"^invalid credentials$"):
        exchange(ScramClient(name, b"guess", None, mechanism=mechanism), server)


def test_unknown_user_is_shown_the_same_salt_each_time():
    """As a user would be who is there."""
    shown = [ScramServer({}.get).first(b"n,,n=nobody,r=x").split(b",")[1:] for _ in range(2)]
    assert shown[0] == shown[1] != ScramServer({}.get).first(b"n,,n=another,r=x").split(b",")[1:]


def test_keys_of_nobody_fit_nothing():
    one, other = nobody("SCRAM-SHA-512", "x"), nobody("SCRAM-SHA-512", "x")
    assert one.stored_key != other.stored_key
    assert len(one.stored_key) == hashlib.sha512().digest_size


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,r=" + b"x" * 5000,
    ],
)
def test_first_message_that_makes_no_sense_is_refused(first):
    with pytest.raises(AuthenticationFailed):
        ScramServer({"alice": known("SCRAM-SHA-256", b"secret")}.get).first(first)


def test_client_that_names_itself_twice_or_knows_of_channel_binding_is_taken():
    server = ScramServer({"alice": known("SCRAM-SHA-256", b"secret")}.get)
    assert server.first(b"y,a=alice,n=alice,r=x").startswith(b"r=x")


@pytest.mark.parametrize("change", [(b"c=biws", b"c=eSws"), (b"r=", b"r=y"), (b",p=", b",p=!"), (b",p=", b",q=")])
def test_last_message_that_was_changed_is_refused(change):
    server = ScramServer({"alice": known("SCRAM-SHA-256", b"secret")}.get)
    client = ScramClient("alice", b"secret", None)
    last = client.final(server.first(client.first()))
    with pytest.raises(AuthenticationFailed):
        server.final(last.replace(*change))


def test_server_that_does_not_know_the_secret_is_found_out():
    client = ScramClient("alice", b"secret", None)
    client.final(ScramServer({"alice": known("SCRAM-SHA-256", b"secret")}.get).first(client.first()))
    with pytest.raises(AuthenticationFailed, match="does not know the secret"):
        client.verify(b"v=" + b"A" * 43 + b"=")


@pytest.mark.parametrize("iterations", ["1", "4095", "16385", "99999999", "x", ""])
def test_server_that_asks_for_too_little_or_too_much_is_refused(iterations):
    client = ScramClient("alice", b"secret", None, lambda: "n")
    client.first()
    with pytest.raises(AuthenticationFailed, match="iterations"):
        client.final(f"r=nm,s=c2FsdA==,i={iterations}".encode())


def test_credential_is_kept_as_kafka_keeps_it():
    credential = known("SCRAM-SHA-256", b"pencil", b"0123")
    text = as_text(credential)
    assert text.startswith("salt=MDEyMw==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert credential_from(text) == credential


@pytest.mark.parametrize("text", ["", "salt=x", "salt=MDEyMw==,stored_key=YQ==,server_key=YQ==,iterations=many", "salt=!,"])
def test_text_that_is_no_credential_is_none(text):
    assert credential_from(text) is None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_anything_else_is_refused_and_raises_nothing_else(first, last):
    server = ScramServer({"alice": known("SCRAM-SHA-256", b"secret")}.get)
    with pytest.raises(AuthenticationFailed):
        server.first(first)
        server.final(last)
