"""Where to find a cluster: `HOST:PORT`, several with commas between them.

127.0.0.1:9092        a host and a port
broker-1              a host, and Kafka's port 9092
[::1]:9092            an IPv6 address is in brackets, so that its colons are its own
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost.errors import InvalidArgument

DEFAULT_PORT = 9092
MAX_PORT = 65535


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(bootstrap_servers: str | Sequence[str]) -> list[Address]:
    """Every address once, in the order given."""
    texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    found = dict.fromkeys(parse_address(text) for text in texts if text.strip())
    if not found:
        raise InvalidArgument("no bootstrap server is named: give one as HOST:PORT")
    return list(found)


def parse_address(text: str) -> Address:
    text = text.strip()
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or not host or (port and not port.startswith(":")):
            raise _refused(text)
        return Address(host, _port(port[1:], text) if port else DEFAULT_PORT)
    host, colon, port = text.partition(":")
    if not host or "/" in text or ":" in port:
        raise _refused(text)
    return Address(host, _port(port, text) if colon else DEFAULT_PORT)


def _port(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits) <= MAX_PORT:
        raise _refused(text)
    return int(digits)


def _refused(text: str) -> InvalidArgument:
    return InvalidArgument(f"bootstrap server {text[:80]!r} is not of the form HOST:PORT with a port from 1 to {MAX_PORT}")
