"""TLS of a listener and of a client: what it shows, whom it trusts, and who a client with a certificate is.

OpenSSL reads keys and certificates from files only: what is not in one by itself goes through a file in memory. The suites of TLS 1.3
cannot be chosen one by one, so that `ssl.cipher.suites` names all of them or none, and without them TLS 1.2 is spoken alone.
"""

from __future__ import annotations

import ssl

from milepost.config.security import SecurityConfig
from milepost.errors import InvalidConfiguration
from milepost.files import Disk, file_in_memory
from milepost.security.distinguished_names import distinguished_name, parse_rules, user_of
from milepost.security.key_stores import KeyStore, key_store, trusted_certificates
from milepost.security.principal import ANONYMOUS, USER, KafkaPrincipal

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
SUITES_OF_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


class ServerTls:
    """Of one listener. The files are read when it is made, and again by `reload`: connections that are there go on."""

    def __init__(self, config: SecurityConfig):
        self._config = config
        self._rules = parse_rules(config.ssl_principal_mapping_rules)
        self._read_at = self._state_of_files()
        self.context = server_context(config)

    def principal(self, connection: ssl.SSLSocket) -> KafkaPrincipal:
        """Who has shown a certificate; it is checked by then."""
        certificate = connection.getpeercert() if self._config.ssl_client_auth != "none" else None
        if not certificate:
            return ANONYMOUS
        subject: object = certificate["subject"]
        return KafkaPrincipal(USER, user_of(distinguished_name(subject), self._rules))  # type: ignore[arg-type]

    def reload(self) -> bool:
        """Take the files again if they are others; whether they were. What cannot be read raises, and the old ones stay."""
        state = self._state_of_files()
        if state == self._read_at:
            return False
        self._read_at = state
        self.context = server_context(self._config)
        return True

    def _state_of_files(self) -> list[tuple[int, int, int] | None]:
        return [state_of(each) for each in (self._config.ssl_keystore_location, self._config.ssl_truststore_location)]


def state_of(path: str | None) -> tuple[int, int, int] | None:
    disk = Disk()
    try:
        found = disk.stat(disk.resolve(path or ""))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def server_context(config: SecurityConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    choose_versions(context, config)
    load_key(context, key_store(config))
    context.verify_mode = VERIFY[config.ssl_client_auth]
    trust(context, trusted_certificates(config))
    return context


def client_context(config: SecurityConfig) -> ssl.SSLContext:
    """Of a client: without a trust store it trusts whom the machine trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm != ""
    choose_versions(context, config)
    if config.ssl_keystore_location is not None or config.ssl_keystore_key is not None:
        load_key(context, key_store(config))
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs()
    else:
        trust(context, trusted)
    return context


def trust(context: ssl.SSLContext, certificates: bytes | None) -> None:
    if certificates is None:
        return
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise InvalidConfiguration(f"ssl.truststore: there are no certificates that can be read in it ({error.reason}).") from None


def choose_versions(context: ssl.SSLContext, config: SecurityConfig) -> None:
    versions = sorted(VERSIONS[name] for name in config.ssl_enabled_protocols)
    if not versions:
        raise InvalidConfiguration("ssl.enabled.protocols: there is none: give TLSv1.2, TLSv1.3 or both.", "ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if not config.ssl_cipher_suites:
        return
    newest = [name for name in config.ssl_cipher_suites if name in SUITES_OF_1_3]
    older = [name for name in config.ssl_cipher_suites if name not in SUITES_OF_1_3]
    if versions[-1] is ssl.TLSVersion.TLSv1_3:
        if newest and len(newest) < len(SUITES_OF_1_3):
            raise suite_fault(f"the suites of TLS 1.3 cannot be chosen: name all of {', '.join(SUITES_OF_1_3)}, or none")
        if not newest and versions[0] is ssl.TLSVersion.TLSv1_3:
            raise suite_fault("there is none of TLS 1.3, and ssl.enabled.protocols allows nothing else")
        if not newest:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if not older:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    for name in older:
        try:
            context.set_ciphers(openssl_name(name))
        except ssl.SSLError:
            raise suite_fault(f"{name} is not one that OpenSSL has") from None
    if older:
        context.set_ciphers(":".join(map(openssl_name, older)))


def suite_fault(reason: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"ssl.cipher.suites: {reason}.", "ssl.cipher.suites")


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is OpenSSL's ECDHE-RSA-AES256-GCM-SHA384."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305").replace("_", "-").replace("-CBC-", "-")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    try:
        with file_in_memory(store.pem) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=store.password or "")
    except ssl.SSLError as error:
        reason = error.reason or "no key with its certificate, or another password"
        raise InvalidConfiguration(f"ssl.keystore: the key and its certificate cannot be used ({reason}).") from None
