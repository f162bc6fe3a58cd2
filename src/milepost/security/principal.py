"""Whoever a connection belongs to: Kafka's KafkaPrincipal, `User:alice` in ACLs and in sentences."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"
BROKER = "Broker"
"""Of connections that have proven to be a broker's of the same cluster; no rule names one."""


class KafkaPrincipal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = KafkaPrincipal(USER, "ANONYMOUS")
"""Of connections by which nobody has to say who they are."""
