"""Listeners that are encrypted, or want a login: what makes their connections.

Keys and certificates are read when the broker is made, so that what cannot be served ends the start, and looked at again every few
seconds: files that have changed hold for connections that come after. A file that cannot be read is told of, and what was read before
stays.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from milepost.config.listeners import parse_listener
from milepost.config.security import is_secured, listener_security
from milepost.errors import InvalidConfiguration

if TYPE_CHECKING:
    from milepost.broker.login import LoginBroker, LoginGate
    from milepost.config.broker import BrokerConfig
    from milepost.loop import Timers
    from milepost.net.channel import Channel
    from milepost.net.processor import MakeChannel
    from milepost.security.tls import ServerTls

logger = logging.getLogger("milepost.broker")

RELOAD_SECONDS = 5.0
MOST_STRANGERS = 1000
"""Connections of one listener whose peers have not said yet who they are. A TLS handshake that has begun takes 60 KB."""


def secured_channels(config: BrokerConfig, broker: LoginBroker) -> dict[str, MakeChannel]:
    """By the name of the listener; of those that have no name here everybody can connect, and read."""
    if not is_secured(config):
        return {}
    # What most brokers do not need, and start sooner without.
    from milepost.broker.login import LoginGate
    from milepost.security.tls import ServerTls

    made: dict[str, MakeChannel] = {}
    for name in (parse_listener(each).name for each in config.listeners):
        security = listener_security(config, name)
        gate = LoginGate(name, security, broker) if security.has_login else None
        if security.is_encrypted:
            made[name] = Encrypted(name, ServerTls(security.config), gate)
        elif gate is not None:
            made[name] = logging_in(gate)
    return made


class Strangers:
    """Of one listener. Whoever has been one for longest goes when there are too many."""

    def __init__(self) -> None:
        self._channels: deque[Channel] = deque()

    def add(self, channel: Channel) -> None:
        self._channels.append(channel)
        if len(self._channels) > MOST_STRANGERS:
            self._channels = deque(each for each in self._channels if each.is_open and each.principal is None)
        if len(self._channels) > MOST_STRANGERS:
            oldest = self._channels.popleft()
            oldest.processor.expel(oldest, f"more than {MOST_STRANGERS} connections have not logged in yet, and it is the oldest")


def logging_in(gate: LoginGate) -> MakeChannel:
    from milepost.net.channel import Channel

    strangers = Strangers()

    def make(*parts: Any) -> Channel:
        channel = Channel(*parts)
        gate.open(channel)
        strangers.add(channel)
        return channel

    return make


class Encrypted:
    """What makes the connections of one listener."""

    def __init__(self, listener: str, tls: ServerTls, gate: LoginGate | None):
        from milepost.net.tls_channel import TlsChannel

        self._listener = listener
        self._tls = tls
        self._gate = gate
        self._type = TlsChannel
        self._strangers = Strangers()
        # Who logs in is not known by a certificate.
        self._principal_of: Callable[..., Any] = tls.principal if gate is None else lambda connection: None

    def __call__(self, sock: socket.socket, *parts: Any) -> Channel:
        channel = self._type(sock, *parts, context=self._tls.context, principal_of=self._principal_of)
        if self._gate is not None:
            self._gate.open(channel)
        self._strangers.add(channel)
        return channel

    def reload(self) -> None:
        try:
            if self._tls.reload():
                logger.info("listener %s: its key and certificates were read again", self._listener)
        except InvalidConfiguration as error:
            logger.error("listener %s goes on with the key and certificates it has: %s", self._listener, error)


class Reloading:
    """Of all listeners, for as long as the loop runs."""

    def __init__(self, channels: Mapping[str, MakeChannel], timers: Timers):
        self._encrypted = [each for each in channels.values() if isinstance(each, Encrypted)]
        self._timers = timers

    def start(self) -> None:
        if self._encrypted:
            self._timers.later(RELOAD_SECONDS, self._look)

    def _look(self) -> None:
        for each in self._encrypted:
            each.reload()
        self._timers.later(RELOAD_SECONDS, self._look)
