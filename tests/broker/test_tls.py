"""Encrypted listeners: who is let in, who that is, and that records come through whole however they are cut up."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

import pytest

from milepost.broker import secured_listeners
from milepost.errors import InvalidConfiguration
from milepost.protocol import frames
from milepost.protocol.messages import MetadataRequest
from milepost.security.principal import ANONYMOUS, KafkaPrincipal
from tests.broker.fetch.readers import Reader, at, offsets
from tests.broker.on_loop import on_loop
from tests.broker.secured import address, channel_of, client_context, log_in_plainly, settings, wire_to
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire
from tests.security.certificates import Authority, authority
from tests.waiting import until


@pytest.fixture
def broker(brokers, tmp_path):
    return brokers.start(settings(tmp_path))


def is_served(wire: Wire) -> bool:
    return bool(wire.ask(MetadataRequest(topics=[]), 4).brokers)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_without_a_certificate_is_anonymous(broker, version):
    context = client_context()
    context.minimum_version = context.maximum_version = version
    with wire_to(broker, "SSL", context) as wire:
        assert is_served(wire)
        assert channel_of(broker, wire).principal == ANONYMOUS


@pytest.mark.parametrize("wanted_", ["requested", "required"])
def test_certificate_says_who_a_client_is(brokers, tmp_path, wanted_):
    broker = brokers.start(settings(tmp_path, **{"ssl.client.auth": wanted_}))
    identity = authority().sign(("C", "DE"), ("O", "example, inc"), ("CN", "alice"))
    with wire_to(broker, "SSL", client_context(identity, tmp_path)) as wire:
        assert is_served(wire)
        assert channel_of(broker, wire).principal == KafkaPrincipal("User", "CN=alice,O=example\\, inc,C=DE")


def test_rules_make_a_user_of_the_name(brokers, tmp_path):
    rules = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/,RULE:^CN=([0-9]+)$/n$1/"}
    broker = brokers.start(settings(tmp_path, **rules))
    for names, user in (((("O", "x"), ("CN", "alice")), "alice"), ((("CN", "77"),), "n77")):
        with wire_to(broker, "SSL", client_context(authority().sign(*names), tmp_path)) as wire:
            assert is_served(wire)
            assert channel_of(broker, wire).principal == KafkaPrincipal("User", user)
    turned_away(broker, client_context(authority().sign(("O", "x")), tmp_path))


def turned_away(broker, context: ssl.SSLContext) -> None:
    told = broker.server.refusals.count
    with pytest.raises((ConnectionError, ssl.SSLError)), wire_to(broker, "SSL", context) as wire:
        is_served(wire)
    until(lambda: broker.server.refusals.count > told, "nobody was told of it")


@pytest.mark.parametrize("shown", ["none", "another authority's", "expired"])
def test_client_without_a_certificate_that_is_trusted_is_turned_away(brokers, tmp_path, shown, caplog):
    broker = brokers.start(settings(tmp_path, **{"ssl.client.auth": "required"}))
    identity = {
        "none": None,
        "another authority's": Authority("somebody else").sign(("CN", "alice")),
        "expired": authority().sign(("CN", "alice"), days=-1),
    }[shown]
    with caplog.at_level("WARNING", "milepost.net"):
        turned_away(broker, client_context(identity, tmp_path))
    assert "the TLS handshake failed: " in caplog.text
    with wire_to(broker, "PLAINTEXT") as wire:
        assert is_served(wire)


def test_login_tells_who_a_client_is_not_its_certificate(brokers, tmp_path):
    broker = brokers.start(settings(tmp_path, **{"ssl.client.auth": "required"}))
    identity = authority().sign(("CN", "mallory"))
    with wire_to(broker, "SASL_SSL", client_context(identity, tmp_path)) as wire:
        assert log_in_plainly(wire).error_code == 0
        assert channel_of(broker, wire).principal == KafkaPrincipal("User", "alice")


def test_client_without_tls_is_named_as_one(broker, caplog):
    with caplog.at_level("WARNING", "milepost.net"), Wire(address(broker, "SSL")) as wire, pytest.raises(ConnectionError):
        is_served(wire)
    assert "this looks like a client without TLS" in caplog.text


def test_client_with_tls_on_a_plain_listener_is_named_as_one(broker, caplog):
    with caplog.at_level("WARNING", "milepost.net"), pytest.raises((ConnectionError, ssl.SSLError)):
        Wire(address(broker, "PLAINTEXT"), tls=client_context())
    assert "this looks like a TLS client on a plaintext listener" in caplog.text


def test_handshake_that_stalls_holds_nobody_up_and_ends(broker):
    host, _, port = address(broker, "SSL").rpartition(":")
    with socket.create_connection((host, int(port))) as stalled:
        stalled.sendall(b"\x16\x03\x01\x02\x00\x01")  # the start of a hello
        with wire_to(broker, "SSL") as wire:
            assert is_served(wire)
        (channel,) = [each for processor in broker.server.processors for each in processor.channels.values() if not each.principal]
        on_loop(broker, lambda: setattr(channel, "opened_at", channel.opened_at - 11))
        stalled.settimeout(30)
        assert stalled.recv(1) == b""


@pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_crowd_that_never_logs_in_is_bounded_and_keeps_nobody_out(broker, listener, monkeypatch):
    monkeypatch.setattr(secured_listeners, "MOST_STRANGERS", 3)
    host, _, port = address(broker, listener).rpartition(":")
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(5)]
        assert [each.recv(1) for each in crowd[:2]] == [b"", b""]
        wire = stack.enter_context(wire_to(broker, listener))
        if listener.startswith("SASL"):
            assert log_in_plainly(wire).error_code == 0
        for _ in range(5):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        assert is_served(wire), "who is known does not go"


def test_connection_is_ended_as_tls_ends_one(broker):
    """By a message of its own, so that the client knows nothing was cut off."""
    context = client_context()
    with wire_to(broker, "SSL", context) as wire:
        is_served(wire)
        channel = channel_of(broker, wire)
        on_loop(broker, lambda: channel.processor.close(channel))
        wire.socket.suppress_ragged_eofs = False
        assert wire.socket.recv(1) == b""


@pytest.mark.parametrize("size", [1, 100, 16_383, 16_384, 16_385, 70_000, 900_000])
def test_records_of_any_size_come_through_whole(broker, size):
    with wire_to(broker, "SSL") as wire:
        create(wire, wanted("t"))
        values = [bytes([number]) * size for number in range(3)]
        for value in values:
            produce(wire, "t", [value])
        reader = Reader(wire, in_session=False, max_bytes=10 << 20)
        for offset in range(3):
            (part,) = reader.ask(at(0, offset, 1)).values()
            assert values[offset] in bytes(part.records)


def test_answer_of_many_batches_comes_through_whole_to_a_slow_reader(broker):
    """More than the socket takes at once, from files and from memory."""
    with wire_to(broker, "SSL") as wire:
        create(wire, wanted("t"))
        for number in range(40):
            produce(wire, "t", [bytes([number]) * 200_000])
        reader = Reader(wire, in_session=False, max_bytes=50 << 20)
        reader.send(at(0, 0, 50 << 20))
        time.sleep(0.3)
        part = reader.answer_of(0)
        assert offsets(part) == list(range(40))
        reader.send(at(0, 0, 50 << 20))
        reader.send(at(0, 39, 50 << 20))
        time.sleep(0.3)
        assert [offsets(reader.answer_of(0)) for _ in range(2)] == [list(range(40)), [39]]


def test_many_requests_in_one_go_are_all_answered(broker):
    """What OpenSSL has deciphered lies where the kernel does not see it: nothing more may come to wake the broker."""
    with wire_to(broker, "SSL") as wire:
        request = frames.encode_request(3, 4, 7, "x" * 100, MetadataRequest(topics=[]))
        count = 5_000
        sender = threading.Thread(target=wire.socket.sendall, args=(request * count,))
        sender.start()
        for _ in range(count):
            assert wire.read_frame()[:4] == b"\0\0\0\x07"
        sender.join()


def test_request_that_comes_byte_by_byte_is_answered(broker):
    with wire_to(broker, "SSL") as wire:
        for octet in frames.encode_request(3, 4, 7, "x", MetadataRequest(topics=[])):
            wire.socket.sendall(bytes((octet,)))
        assert wire.read_frame()[:4] == b"\0\0\0\x07"


def test_wait_of_a_fetch_ends_with_the_next_record(broker):
    with wire_to(broker, "SSL") as wire, wire_to(broker, "SSL") as producer:
        create(wire, wanted("t"))
        reader = Reader(wire, in_session=True, max_wait_ms=60_000)
        reader.send(at(0, 0))
        produce(producer, "t", [b"v"])
        assert offsets(reader.answer_of(0)) == [0]


def test_key_and_certificate_that_changed_hold_for_new_connections(broker, tmp_path):
    def serial(wire: Wire) -> str:
        return wire.socket.getpeercert()["serialNumber"]

    with wire_to(broker, "SSL") as before:
        first = serial(before)
        authority().sign(("CN", "localhost")).write(tmp_path / "tls" / "broker.pem")
        on_loop(broker, broker.channels["SSL"].reload)
        with wire_to(broker, "SSL") as after:
            assert serial(after) != first
            assert is_served(after)
        assert is_served(before)
        (tmp_path / "tls" / "broker.pem").write_text("nonsense")
        on_loop(broker, broker.channels["SSL"].reload)
        with wire_to(broker, "SSL") as still:
            assert is_served(still)


def test_key_store_that_cannot_be_read_ends_the_start_and_leaves_nothing(brokers, tmp_path):
    given = settings(tmp_path)
    (tmp_path / "tls" / "broker.pem").write_text("nonsense")
    with pytest.raises(InvalidConfiguration, match=r"^ssl\.keystore"):
        brokers.start(given)
    assert not (tmp_path / "data").exists()
