"""Kafka's properties about who may connect to a listener, and how what is said there is encrypted.

They hold for every listener. `listener.name.NAME.PROPERTY` holds for one, its name in lower case, before the other. The users of a
mechanism are said there alone, for each mechanism by itself:

    listener.name.outside.ssl.keystore.location=/etc/kafka/outside.pem
    listener.name.outside.plain.sasl.jaas.config=org...PlainLoginModule required user_alice="..." ;

Nobody sees a value of these again: some are passwords, and a configuration that is shown shows `[hidden]` for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from milepost.config.configuration import Configuration
from milepost.config.definition import LIST, Given, I, L, S, Secret, declare
from milepost.config.listeners import Listener, is_loopback, parse_listener, protocols_of
from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

OF_A_LISTENER = "listener.name."
JAAS = "sasl.jaas.config"
FAMILIES = (OF_A_LISTENER, "ssl.", "sasl.", "connection")
"""How all of these begin; most brokers are given none."""
AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
STORE_TYPES = ("PEM", "PKCS12", "JKS")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@frozen_dataclass
class SecurityConfig(Configuration):
    """What one listener has."""

    kind: ClassVar[str] = "property of a listener's security"

    ssl_keystore_type: str = declare(S, "JKS", "form of the key store", choices=STORE_TYPES)
    ssl_keystore_location: str | None = declare(S, None, "file with the key and the certificates of the broker", nullable=True)
    ssl_keystore_password: str | None = declare(S, None, "password of the key store", nullable=True)
    ssl_keystore_key: str | None = declare(S, None, "the key itself, as PEM", nullable=True)
    ssl_keystore_certificate_chain: str | None = declare(S, None, "the certificates themselves, as PEM", nullable=True)
    ssl_key_password: str | None = declare(S, None, "password of the key in the key store", nullable=True)
    ssl_truststore_type: str = declare(S, "JKS", "form of the trust store", choices=STORE_TYPES)
    ssl_truststore_location: str | None = declare(S, None, "file with those that sign clients' certificates", nullable=True)
    ssl_truststore_password: str | None = declare(S, None, "password of the trust store", nullable=True)
    ssl_truststore_certificates: str | None = declare(S, None, "the certificates themselves, as PEM", nullable=True)
    ssl_client_auth: str = declare(S, "none", "whether clients show a certificate", choices=("none", "requested", "required"))
    ssl_enabled_protocols: tuple[str, ...] = declare(LIST, TLS_VERSIONS, "versions of TLS that are spoken", choices=TLS_VERSIONS)
    ssl_protocol: str = declare(
        S, "TLSv1.3", "without effect here: ssl.enabled.protocols says what is spoken", choices=(*TLS_VERSIONS, "TLS")
    )
    ssl_cipher_suites: tuple[str, ...] = declare(LIST, (), "suites that are offered, by their IANA names; without any OpenSSL's")
    ssl_principal_mapping_rules: str = declare(S, "DEFAULT", "how the name in a client's certificate becomes a user")
    ssl_endpoint_identification_algorithm: str = declare(
        S, "https", "for clients: whether the host is checked", choices=("https", "")
    )
    sasl_enabled_mechanisms: tuple[str, ...] = declare(
        LIST, (), "how clients may log in (Kafka's default, GSSAPI, is not served)", choices=MECHANISMS
    )
    sasl_server_max_receive_size: int = declare(I, 524_288, "the largest request before a login", low=1)
    connections_max_reauth_ms: int = declare(L, 0, "a login holds for so long; 0: as long as the connection", low=0)
    connection_failed_authentication_delay_ms: int = declare(I, 100, "how long a login that failed waits for its answer", low=0)


class Secured(Protocol):
    @property
    def listeners(self) -> tuple[str, ...]: ...
    @property
    def listener_security_protocol_map(self) -> tuple[str, ...]: ...
    @property
    def secrets(self) -> tuple[Given, ...]: ...
    @property
    def milepost_insecure_listener(self) -> bool: ...


@frozen_dataclass
class ListenerSecurity:
    protocol: str
    config: SecurityConfig
    users: Mapping[str, Secret]
    """What `sasl.jaas.config` says for each mechanism."""

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def is_authenticated(self) -> bool:
        """Whether nobody is served without having proven who it is."""
        return self.has_login or (self.is_encrypted and self.config.ssl_client_auth == "required")


def is_security_property(name: str) -> bool:
    if not name.startswith(FAMILIES):
        return False
    if name.startswith(OF_A_LISTENER):
        _, _, rest = name.removeprefix(OF_A_LISTENER).partition(".")
        return rest in SecurityConfig.names() or mechanism_of(rest) is not None
    return name in SecurityConfig.names()


def mechanism_of(name: str) -> str | None:
    """Of `plain.sasl.jaas.config`."""
    mechanism, dot, rest = name.partition(".")
    return mechanism.upper() if dot and rest == JAAS and mechanism.upper() in MECHANISMS else None


def listener_security(broker: Secured, listener: str) -> ListenerSecurity:
    general: dict[str, object] = {}
    own: dict[str, object] = {}
    users: dict[str, Secret] = {}
    prefix = f"{OF_A_LISTENER}{listener.lower()}."
    for name, value in broker.secrets:
        rest = name.removeprefix(prefix)
        mechanism = mechanism_of(rest)
        if mechanism is not None and rest != name:
            users[mechanism] = value
        elif rest != name:
            own[rest] = value.value
        elif not name.startswith(OF_A_LISTENER):
            general[name] = value.value
    protocol = protocols_of(broker.listener_security_protocol_map)[listener]
    return ListenerSecurity(protocol, SecurityConfig.parse({**general, **own}), users)


def is_secured(broker: Secured) -> bool:
    """Whether there is a listener that is more than plain text."""
    protocols = protocols_of(broker.listener_security_protocol_map)
    return any(protocols[parse_listener(each).name] != "PLAINTEXT" for each in broker.listeners)


def wants_login(broker: Secured) -> bool:
    """Whether there is a listener that does."""
    protocols = protocols_of(broker.listener_security_protocol_map)
    return any(protocols[parse_listener(each).name].startswith("SASL") for each in broker.listeners)


def check_security(broker: Secured, names: Iterable[str]) -> None:
    """Of each listener what its protocol needs, and nothing for listeners that are not there."""
    names = list(names)
    if not broker.milepost_insecure_listener:
        for each in open_listeners(broker):
            refuse(
                "listeners",
                f"{each.name}://{each.host}:{each.port} can be reached from elsewhere, and nobody has to say who it is there: give it "
                "SASL_SSL, or SSL with ssl.client.auth=required, or give milepost.insecure.listener=true if that is meant",
            )
    if not broker.secrets and not is_secured(broker):
        return
    listeners = {name: listener_security(broker, name) for name in names}
    for name, _ in broker.secrets:
        listener = name.removeprefix(OF_A_LISTENER).partition(".")[0]
        if name.startswith(OF_A_LISTENER) and listener.upper() not in names:
            refuse(name, f"{listener.upper()} is none of the listeners {', '.join(names)}")
    for name, security in listeners.items():
        check_listener(name, security)
    used = {
        "ssl.": any(security.is_encrypted for security in listeners.values()),
        "sasl.": any(security.has_login for security in listeners.values()),
        "connections.max.reauth.ms": any(security.has_login for security in listeners.values()),
    }
    default = SecurityConfig()
    for name, value in broker.secrets:
        unused = next((prefix for prefix, is_used in used.items() if name.startswith(prefix) and not is_used), None)
        if unused is not None and SecurityConfig.property(name).parse(value.value) != default.get(name):
            protocol = "SSL" if unused == "ssl." else "SASL_SSL"
            refuse(name, f"no listener has a protocol that uses it: give one {protocol}, or take the property out")


def open_listeners(broker: Secured) -> list[Listener]:
    """Those that can be reached from elsewhere, and where nobody has to say who it is."""
    reached = [listener for listener in map(parse_listener, broker.listeners) if not is_loopback(listener.host)]
    return [listener for listener in reached if not listener_security(broker, listener.name).is_authenticated]


class Authorized(Protocol):
    @property
    def authorizer_class_name(self) -> str: ...
    @property
    def super_users(self) -> str | None: ...
    @property
    def allow_everyone_if_no_acl_found(self) -> bool | None: ...


def check_authorizer(broker: Authorized) -> None:
    """A property that closes something leaves it open without what would obey it."""
    if broker.authorizer_class_name:
        return
    closing = {
        "super.users": bool(broker.super_users),
        "allow.everyone.if.no.acl.found": broker.allow_everyone_if_no_acl_found is False,
    }
    for name in (name for name, closes in closing.items() if closes):
        raise InvalidConfiguration(
            f"{name} promises authorization, and without authorizer.class.name everybody may do everything: "
            f"give {AUTHORIZERS[1]} there, or take {name} out.",
            name,
        )


def check_listener(name: str, security: ListenerSecurity) -> None:
    """That everything is there which its protocol needs."""
    config = security.config
    said_by = "listeners" if name == security.protocol else "listener.security.protocol.map"
    needs = f"{name} is {security.protocol} and needs"
    if security.is_encrypted:
        if not (config.ssl_keystore_location or config.ssl_keystore_key):
            refuse(said_by, f"{needs} the broker's key and certificate: give ssl.keystore.location")
        if config.ssl_keystore_key and not config.ssl_keystore_certificate_chain:
            refuse("ssl.keystore.key", "a key needs its certificate: give ssl.keystore.certificate.chain")
        if config.ssl_client_auth != "none" and not (config.ssl_truststore_location or config.ssl_truststore_certificates):
            refuse("ssl.client.auth", "certificates of clients are checked by those who signed them: give ssl.truststore.location")
    if security.has_login:
        if not config.sasl_enabled_mechanisms:
            refuse(said_by, f"{needs} ways to log in: give sasl.enabled.mechanisms, some of {', '.join(MECHANISMS)}")
        if "PLAIN" in config.sasl_enabled_mechanisms and "PLAIN" not in security.users:
            refuse(said_by, f"{needs} the users of PLAIN: give {OF_A_LISTENER}{name.lower()}.plain.{JAAS}")


def refuse(name: str, reason: str) -> None:
    raise InvalidConfiguration(f"{name}: {reason}.", name)
