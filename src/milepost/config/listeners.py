"""Listeners: where a broker listens, what it tells clients to connect to, and which of Kafka's rules hold for the two.

    listeners                        NAME://HOST:PORT,…; no host means 127.0.0.1
    advertised.listeners             the same, for some or all of these names
    listener.security.protocol.map   NAME:PROTOCOL,…

Names are upper case, however they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NoReturn, Protocol

from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANYWHERE = ("0.0.0.0", "::")


@frozen_dataclass
class Listener:
    name: str
    host: str
    port: int


class ListenerSettings(Protocol):
    """The properties that are about listeners."""

    @property
    def listeners(self) -> tuple[str, ...]: ...
    @property
    def advertised_listeners(self) -> tuple[str, ...] | None: ...
    @property
    def control_plane_listener_name(self) -> str | None: ...
    @property
    def inter_broker_listener_name(self) -> str | None: ...
    @property
    def listener_security_protocol_map(self) -> tuple[str, ...]: ...
    @property
    def zookeeper_connect(self) -> str | None: ...
    @property
    def security_inter_broker_protocol(self) -> str | None: ...


def parse_listener(text: str, name: str = "listeners") -> Listener:
    """`PLAINTEXT://127.0.0.1:9092`; a host has to be given for more than loopback."""
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isdigit() or int(port) > 65535:
        refuse(name, f"{text!r} is not of the form NAME://HOST:PORT")
    return Listener(listener.upper(), host.strip("[]") or "127.0.0.1", int(port))


def check_listeners(config: ListenerSettings) -> list[str]:
    """The names of the listeners, if there is nothing that Kafka refuses."""
    listeners = [parse_listener(each) for each in config.listeners]
    names = [listener.name for listener in listeners]
    if not listeners:
        refuse("listeners", "there is none: give at least one, such as PLAINTEXT://127.0.0.1:9092")
    ensure_once("listeners", names)
    protocols = protocols_of(config.listener_security_protocol_map)
    for name in names:
        if name not in protocols:
            refuse("listeners", f"listener.security.protocol.map has no protocol for {name}: add {name}:PLAINTEXT to it")
    _check_roles(config, names, protocols)
    _check_advertised(config, names)
    return names


def protocols_of(protocol_map: Iterable[str]) -> dict[str, str]:
    """The protocol of each name of a listener."""
    return {name: protocol for name, _, protocol in (each.upper().partition(":") for each in protocol_map)}


def inter_broker_listener(config: ListenerSettings) -> str:
    """Where none is named it is the first that is not the controller's own."""
    names = [parse_listener(each).name for each in config.listeners]
    others = (name for name in names if name != config.control_plane_listener_name)
    return config.inter_broker_listener_name or next(others, names[0])


def _check_roles(config: ListenerSettings, names: list[str], protocols: Mapping[str, str]) -> None:
    brokers, control = config.inter_broker_listener_name, config.control_plane_listener_name
    for name, listener in (("inter.broker.listener.name", brokers), ("control.plane.listener.name", control)):
        if listener is not None and listener not in names:
            refuse(name, f"{listener} is none of the listeners {', '.join(names)}")
    if brokers is not None and config.security_inter_broker_protocol is not None:
        refuse("inter.broker.listener.name", "and security.inter.broker.protocol are both given: give one of them")
    if config.zookeeper_connect is not None:
        for listener in filter(None, (inter_broker_listener(config), control)):
            if protocols[listener] != "PLAINTEXT":
                refuse(
                    "inter.broker.listener.name",
                    f"brokers among each other speak PLAINTEXT, and {listener} is {protocols[listener]}: give one for them alone",
                )
    if brokers is not None and brokers == control:
        refuse("control.plane.listener.name", f"{control} is inter.broker.listener.name as well: give each its own")


def _check_advertised(config: ListenerSettings, names: list[str]) -> None:
    told = [parse_listener(each, "advertised.listeners") for each in config.advertised_listeners or ()]
    ensure_once("advertised.listeners", [listener.name for listener in told])
    for listener in told:
        if listener.name not in names:
            refuse("advertised.listeners", f"{listener.name} is none of the listeners {', '.join(names)}")
        if listener.host in ANYWHERE:
            refuse("advertised.listeners", f"nobody can connect to {listener.host}: give an address that clients reach")


def is_loopback(host: str) -> bool:
    """A name is taken for what others reach, but for one."""
    return host in ("localhost", "::1") or host.startswith("127.")


def ensure_once(name: str, names: Iterable[str]) -> None:
    twice = [listener for listener, count in Counter(names).items() if count > 1]
    if twice:
        refuse(name, f"{', '.join(twice)} is there more than once: a listener's name stands for one address")


def refuse(name: str, reason: str) -> NoReturn:
    raise InvalidConfiguration(f"{name}: {reason}.", name)
