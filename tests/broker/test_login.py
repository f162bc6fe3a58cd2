"""Who has to log in: what is served before, what a login takes, and what becomes of one that fails."""

from __future__ import annotations

import logging
import time

import pytest

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    DescribeUserScramCredentialsRequest,
    ListGroupsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from milepost.security.principal import KafkaPrincipal
from tests.broker.on_loop import on_loop
from tests.broker.secured import (
    address,
    channel_of,
    log_in_by_scram,
    log_in_plainly,
    say,
    set_password,
    settings,
    wire_to,
)
from tests.broker.wire import Wire
from tests.waiting import until

LISTENERS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.fixture
def broker(brokers, tmp_path):
    return brokers.start(settings(tmp_path))


@pytest.fixture
def open_wire(broker):
    with wire_to(broker, "PLAINTEXT") as wire:
        yield wire


@pytest.mark.parametrize("listener", LISTENERS)
def test_password_makes_a_user_of_a_connection(broker, listener):
    with wire_to(broker, listener) as wire:
        assert log_in_plainly(wire).error_code == 0
        assert wire.ask(MetadataRequest(topics=[]), 12).brokers[0].port == int(address(broker, listener).rpartition(":")[2])
        assert channel_of(broker, wire).principal == KafkaPrincipal("User", "alice")


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_that_was_made_logs_in_by_scram(broker, open_wire, listener, mechanism):
    assert set_password(open_wire, "bob", "b secret", mechanism) == 0
    with wire_to(broker, listener) as wire:
        assert log_in_by_scram(wire, "bob", "b secret", mechanism).error_code == 0
        assert channel_of(broker, wire).principal == KafkaPrincipal("User", "bob")


def test_mechanisms_have_passwords_of_their_own(broker, open_wire):
    set_password(open_wire, "bob", "b secret", "SCRAM-SHA-256")
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        refused = log_in_by_scram(wire, "bob", "b secret", "SCRAM-SHA-512")
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("nobody", "a secret"), ("", "")])
def test_password_that_is_wrong_is_told_late_and_ends_the_connection(broker, user, password):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        began = time.monotonic()
        refused = log_in_plainly(wire, user, password)
        assert time.monotonic() - began >= 0.1
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
        )
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_wrong_password_and_unknown_user_of_scram_are_answered_alike(broker, open_wire):
    set_password(open_wire, "bob", "b secret")
    answers = []
    for user in ("bob", "nobody"):
        with wire_to(broker, "SASL_PLAINTEXT") as wire:
            refused = log_in_by_scram(wire, user, "guess")
            answers.append((refused.error_code, refused.error_message, bytes(refused.auth_bytes)))
    sentence = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert answers == [(58, sentence, b"")] * 2


def test_no_password_is_in_the_log(broker, caplog):
    with caplog.at_level(logging.DEBUG, "milepost"):
        for password in ("a secret", "guess"):
            with wire_to(broker, "SASL_PLAINTEXT") as wire:
                log_in_plainly(wire, "alice", password)
        until(lambda: "the login failed" in caplog.text, "nobody was told of the login that failed")
    assert "a secret" not in caplog.text
    assert "guess" not in caplog.text


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), ListGroupsRequest()], ids=["Metadata", "ListGroups"])
def test_nothing_is_served_before_a_login(broker, request_):
    with wire_to(broker, "SASL_PLAINTEXT") as wire, pytest.raises(ConnectionError):
        wire.ask(request_, 4)


def test_garbage_before_a_login_ends_the_connection(broker):
    for frame in (b"", b"\0", b"\0\x11", b"\0\x11\0\1\0\0\0\1\0\0\xff", b"\0\x24\0\2\0\0\0\1", b"\xff" * 100, b"\0\x11\0\x63\0\0\0\1\0\0"):
        with wire_to(broker, "SASL_PLAINTEXT") as wire:
            wire.socket.sendall(len(frame).to_bytes(4, "big") + frame)
            with pytest.raises(ConnectionError):
                wire.read_frame()


def test_versions_are_told_before_a_login_and_name_what_it_takes(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        listed = {each.api_key: (each.min_version, each.max_version) for each in wire.ask(request, 3).api_keys}
        assert (listed[17], listed[36]) == ((0, 1), (0, 2))
        assert log_in_plainly(wire).error_code == 0


def test_mechanism_that_is_not_served_is_told_those_that_are(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        answer = wire.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert log_in_plainly(wire).error_code == 0


def test_message_of_a_mechanism_before_the_mechanism_is_refused(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert say(wire, b"\0alice\0a secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
        with pytest.raises(ConnectionError):
            wire.ask(MetadataRequest(topics=[]), 4)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_login_in_every_version(broker, version):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert say(wire, b"\0alice\0a secret", version).error_code == 0


def test_old_clients_send_messages_without_a_header(broker, open_wire):
    """After a SaslHandshake of version 0."""
    set_password(open_wire, "bob", "b secret")
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        wire.socket.sendall(b"\0\0\0\x0f\0alice\0a secret")
        assert wire.read_frame() == b""
        assert wire.ask(MetadataRequest(topics=[]), 4).brokers
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        wire.socket.sendall(b"\0\0\0\x0c\0alice\0guess")
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_requests_behind_a_login_wait_for_it(broker):
    """Sent in one go: those behind a login that fails are not looked at."""
    for password, is_served in (("a secret", True), ("guess", False)):
        with wire_to(broker, "SASL_PLAINTEXT") as wire:
            wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            wire.send(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)
            wire.send(MetadataRequest(topics=[]), 4)
            wire.read_frame()
            wire.read_frame()
            if is_served:
                assert wire.read_frame()
            else:
                with pytest.raises(ConnectionError):
                    wire.read_frame()


def test_request_before_a_login_is_small(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        wire.socket.sendall((524_289).to_bytes(4, "big"))
        with pytest.raises(ConnectionError):
            wire.read_frame()
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        log_in_plainly(wire)
        names = [MetadataRequest.Topic(name="x" * 100 + str(number)) for number in range(6_000)]
        assert len(wire.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 4).topics) == 6_000


def test_who_does_not_log_in_is_sent_away(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as silent, wire_to(broker, "SASL_PLAINTEXT") as known:
        log_in_plainly(known)
        for wire in (silent, known):
            channel = channel_of(broker, wire)
            on_loop(broker, lambda channel=channel: setattr(channel, "opened_at", channel.opened_at - 11))
        with pytest.raises(ConnectionError):
            silent.read_frame()
        assert known.ask(MetadataRequest(topics=[]), 4).brokers


def test_login_that_ends_is_renewed_on_the_connection(brokers, tmp_path):
    broker = brokers.start(settings(tmp_path, **{"connections.max.reauth.ms": "60000"}))
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert log_in_plainly(wire).session_lifetime_ms == 60_000
        before = channel_of(broker, wire).login_ends
        assert log_in_plainly(wire).error_code == 0
        assert channel_of(broker, wire).login_ends > before
        assert wire.ask(MetadataRequest(topics=[]), 4).brokers


def test_login_that_ended_closes_the_connection(brokers, tmp_path):
    broker = brokers.start(settings(tmp_path, **{"connections.max.reauth.ms": "60000"}))
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        log_in_plainly(wire)
        channel = channel_of(broker, wire)
        on_loop(broker, lambda: setattr(channel, "login_ends", channel.login_ends - 61))
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_connection_keeps_its_user(broker):
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        assert log_in_plainly(wire, "alice", "a secret").error_code == 0
        assert log_in_plainly(wire, "admin", "admin secret").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_listener_without_a_login_takes_none(broker, open_wire):
    assert open_wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert say(open_wire, b"\0alice\0a secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert open_wire.ask(MetadataRequest(topics=[]), 4).brokers


# Users.


def described(wire: Wire, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    users = [DescribeUserScramCredentialsRequest.User(name=name) for name in names]
    results = wire.ask(DescribeUserScramCredentialsRequest(users=users or None), 0).results
    return [(each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in results]


def delete(wire: Wire, user: str, mechanism: int) -> int:
    deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=mechanism)
    return wire.ask(AlterUserScramCredentialsRequest(deletions=[deletion]), 0).results[0].error_code


def test_users_are_listed_and_taken_away(open_wire):
    set_password(open_wire, "bob", "x", "SCRAM-SHA-256")
    set_password(open_wire, "bob", "x", "SCRAM-SHA-512", 8192)
    set_password(open_wire, "carol", "x")
    assert described(open_wire) == [("bob", 0, [(1, 4096), (2, 8192)]), ("carol", 0, [(1, 4096)])]
    assert described(open_wire, "carol", "dave", "carol") == [("carol", 92, []), ("dave", 91, [])]
    assert delete(open_wire, "bob", 1) == 0
    assert delete(open_wire, "bob", 1) == ErrorCode.RESOURCE_NOT_FOUND
    assert described(open_wire, "bob") == [("bob", 0, [(2, 8192)])]
    assert delete(open_wire, "bob", 2) == 0
    assert described(open_wire) == [("carol", 0, [(1, 4096)])]


def test_users_outlive_the_broker(brokers, tmp_path):
    broker = brokers.start(settings(tmp_path))
    with wire_to(broker, "PLAINTEXT") as wire:
        set_password(wire, "bob", "b secret")
        set_password(wire, "carol", "c secret")
        delete(wire, "carol", 1)
    for _ in range(2):  # from the changes, and from the snapshot that the first stop wrote
        brokers.stop(broker)
        broker = brokers.start(settings(tmp_path))
        with wire_to(broker, "PLAINTEXT") as wire:
            assert described(wire) == [("bob", 0, [(1, 4096)])]
        with wire_to(broker, "SASL_PLAINTEXT") as wire:
            assert log_in_by_scram(wire, "bob", "b secret").error_code == 0


def test_new_password_holds_from_the_next_login_on(broker, open_wire):
    set_password(open_wire, "bob", "old")
    with wire_to(broker, "SASL_PLAINTEXT") as wire:
        log_in_by_scram(wire, "bob", "old")
        set_password(open_wire, "bob", "new")
        assert wire.ask(MetadataRequest(topics=[]), 4).brokers
    for password, code in (("old", 58), ("new", 0)):
        with wire_to(broker, "SASL_PLAINTEXT") as wire:
            assert log_in_by_scram(wire, "bob", password).error_code == code


def upsertion(name: str = "bob", mechanism: int = 1, iterations: int = 4096, salt: bytes = b"s", secret: bytes = b"x"):
    return AlterUserScramCredentialsRequest.Upsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=secret
    )


@pytest.mark.parametrize(
    ("upsertions", "code"),
    [
        ([upsertion(name="")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(name="x" * 2000)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(secret=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion(), upsertion()], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion(mechanism=2), upsertion(iterations=1)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_credential_that_is_not_acceptable_is_refused(open_wire, upsertions, code):
    results = open_wire.ask(AlterUserScramCredentialsRequest(upsertions=upsertions), 0).results
    assert [each.error_code for each in results] == [code]
    assert described(open_wire) == []


def test_logins_are_told_apart_in_the_log_and_counted(broker, caplog):
    before = broker.server.refusals.count
    with caplog.at_level(logging.WARNING, "milepost"), wire_to(broker, "SASL_PLAINTEXT") as wire:
        log_in_plainly(wire, "alice", "guess")
        until(lambda: broker.server.refusals.count == before + 1, "the refusal was not counted")
    assert caplog.text.count("the login failed: invalid credentials") == 1
