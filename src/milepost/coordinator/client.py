"""Who sent a request, as far as a group remembers it: shown by DescribeGroups and stored in the group's record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    client_id: str
    host: str
    """As Kafka writes it: `/127.0.0.1`."""
