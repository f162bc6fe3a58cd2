"""Keys and certificates in every form: each makes a context that a client shakes hands with."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from milepost.config.security import SecurityConfig
from milepost.errors import InvalidConfiguration
from milepost.security.java_key_store import read_java_key_store
from milepost.security.tls import ServerTls, server_context
from tests.security.certificates import authority

HERE = Path(__file__).parent


def handshake(server: ssl.SSLContext, trusted: str) -> dict:
    """The certificate that a client is shown, which trusts these."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            if end.server_side is False:
                shown = end.getpeercert()
        if not ends:
            return shown
    raise AssertionError("no end of it")


def common_name(certificate: dict) -> str:
    return dict(pair for relative in certificate["subject"] for pair in relative)["commonName"]


def config(**settings: str) -> SecurityConfig:
    return SecurityConfig.parse({name.replace("_", "."): value for name, value in settings.items()})


@pytest.fixture(scope="module")
def identity():
    return authority().sign(("CN", "localhost"))


def shown_by(settings: SecurityConfig, trusted: str | None = None) -> str:
    return common_name(handshake(server_context(settings), trusted or authority().pem))


def test_pem_file(identity, tmp_path):
    store = identity.write(tmp_path / "store.pem")
    assert shown_by(config(ssl_keystore_type="PEM", ssl_keystore_location=str(store))) == "localhost"


def test_store_behind_a_link_is_read_and_noticed_when_the_link_changes(identity, tmp_path):
    """As Kubernetes gives secrets to a pod."""
    for name, each in (("first", identity), ("second", authority().sign(("CN", "another")))):
        each.write(tmp_path / name)
    link = tmp_path / "store.pem"
    link.symlink_to("first")
    tls = ServerTls(config(ssl_keystore_type="PEM", ssl_keystore_location=str(link)))
    link.unlink()
    link.symlink_to("second")
    assert tls.reload()
    assert common_name(handshake(tls.context, authority().pem)) == "another"


def test_pem_file_whose_key_has_a_password(identity, tmp_path):
    store = tmp_path / "store.pem"
    store.write_text(identity.key_pem("a password") + identity.certificate_pem)
    settings = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(store)}
    assert shown_by(config(**settings, ssl_key_password="a password")) == "localhost"
    for wrong in ({}, {"ssl_key_password": "guess"}):
        with pytest.raises(InvalidConfiguration, match=r"ssl\.keystore: the key and its certificate cannot be used") as refusal:
            server_context(config(**settings, **wrong))
        assert "guess" not in str(refusal.value)


@pytest.mark.parametrize("line_end", ["\n", " ", "\\n"])
def test_pem_in_the_property_itself(identity, line_end):
    key, chain = (text.replace("\n", line_end) for text in (identity.key_pem(), identity.certificate_pem))
    settings = config(ssl_keystore_type="PEM", ssl_keystore_key=key, ssl_keystore_certificate_chain=chain)
    assert shown_by(settings) == "localhost"


def test_pkcs12_file(identity, tmp_path):
    store = tmp_path / "store.p12"
    store.write_bytes(identity.pkcs12("a password"))
    for kind in ("PKCS12", "JKS"):
        settings = {"ssl_keystore_type": kind, "ssl_keystore_location": str(store)}
        assert shown_by(config(**settings, ssl_keystore_password="a password")) == "localhost"
        with pytest.raises(InvalidConfiguration, match=r"ssl\.keystore\.location: .*store\.p12 cannot be read") as refusal:
            server_context(config(**settings, ssl_keystore_password="guess"))
        assert "guess" not in str(refusal.value)


JKS = {"ssl_keystore_type": "JKS", "ssl_keystore_location": str(HERE / "broker.jks"), "ssl_keystore_password": "storepass"}


def test_java_key_store_that_keytool_wrote():
    trusted = {"ssl_truststore_location": str(HERE / "trusted.jks"), "ssl_truststore_password": "storepass"}
    context = server_context(config(**JKS, ssl_key_password="keypassword", **trusted))
    assert context.cert_store_stats()["x509"] == 1
    (own,) = read_java_key_store((HERE / "trusted.jks").read_bytes(), "storepass").certificates
    assert common_name(handshake(context, ssl.DER_cert_to_PEM_cert(own))) == "localhost"


@pytest.mark.parametrize(
    "wrong", [{"ssl_keystore_password": "guess"}, {"ssl_key_password": "guess"}, {"ssl_keystore_location": __file__}]
)
def test_java_key_store_with_another_password_is_refused(wrong):
    settings = {**JKS, "ssl_key_password": "keypassword", **wrong}
    with pytest.raises(InvalidConfiguration, match=r"ssl\.keystore\.location: .* cannot be read") as refusal:
        server_context(config(**settings))
    assert "guess" not in str(refusal.value)


def test_damaged_java_key_store_is_refused(tmp_path):
    sound = (HERE / "broker.jks").read_bytes()
    for at in range(0, len(sound), 7):
        store = tmp_path / "store.jks"
        store.write_bytes(sound[:at] + bytes((sound[at] ^ 1,)) + sound[at + 1 :])
        with pytest.raises(InvalidConfiguration):
            server_context(config(**{**JKS, "ssl_key_password": "keypassword", "ssl_keystore_location": str(store)}))


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_file_that_is_no_store_is_refused(tmp_path, content):
    store = tmp_path / "store.pem"
    store.write_text(content)
    with pytest.raises(InvalidConfiguration, match=r"^ssl\.keystore"):
        server_context(config(ssl_keystore_type="PEM", ssl_keystore_location=str(store)))


def test_file_that_is_not_there_is_named():
    with pytest.raises(InvalidConfiguration, match=r"^ssl\.keystore\.location: /nowhere/store\.pem cannot be read"):
        server_context(config(ssl_keystore_type="PEM", ssl_keystore_location="/nowhere/store.pem"))


def test_client_cannot_have_the_handshake_done_again(identity, tmp_path):
    store = identity.write(tmp_path / "store.pem")
    context = server_context(config(ssl_keystore_type="PEM", ssl_keystore_location=str(store)))
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_versions_and_suites_are_those_of_the_configuration(identity, tmp_path):
    store = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(identity.write(tmp_path / "store.pem"))}
    newest = server_context(config(**store, ssl_enabled_protocols="TLSv1.3"))
    assert (newest.minimum_version, newest.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    older = server_context(config(**store, ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"))
    assert older.maximum_version == ssl.TLSVersion.TLSv1_2
    assert [each["name"] for each in older.get_ciphers() if each["protocol"] != "TLSv1.3"] == ["ECDHE-ECDSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "cannot be chosen"),
        ({"ssl_cipher_suites": "TLS_RSA_WITH_NULL_NONSENSE"}, "TLS_RSA_WITH_NULL_NONSENSE"),
        ({"ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ssl_enabled_protocols": "TLSv1.3"}, "none of TLS 1.3"),
        ({"ssl_enabled_protocols": ""}, "give TLSv1.2, TLSv1.3 or both"),
    ],
)
def test_suites_that_cannot_be_served_are_refused(identity, tmp_path, settings, fault):
    store = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(identity.write(tmp_path / "store.pem"))}
    with pytest.raises(InvalidConfiguration, match=fault):
        server_context(config(**store, **settings))


def test_files_that_changed_are_read_again_and_those_that_cannot_be_are_not_taken(identity, tmp_path):
    store = identity.write(tmp_path / "store.pem")
    tls = ServerTls(config(ssl_keystore_type="PEM", ssl_keystore_location=str(store)))
    first = tls.context
    assert not tls.reload()
    authority().sign(("CN", "another")).write(store)
    assert tls.reload()
    assert common_name(handshake(tls.context, authority().pem)) == "another"
    second = tls.context
    store.write_text("nonsense")
    with pytest.raises(InvalidConfiguration):
        tls.reload()
    assert tls.context is second is not first
