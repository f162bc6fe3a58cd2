"""Requests to other brokers: one goes out, a response or a failure comes back by callback, nothing blocks.

Requests of one purpose to one broker share a connection and are answered in order; different purposes do not hold each other up. Brokers
know each other by the purpose too: it is in the client id, as Kafka's brokers do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from milepost.errors import MilepostError
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.message import Message
from milepost.replica.metadata import BrokerInfo


class Peers(Protocol):
    def send(
        self,
        broker: BrokerInfo,
        request: Message | RepeatedFetch,
        version: int | None,
        on_answer: Callable[[Any], object],
        on_failure: Callable[[MilepostError], object],
        *,
        purpose: str,
        timeout: float | None = None,
    ) -> None:
        """In `version`, or in the newest that both know after asking (None). Ends in exactly one of the two calls."""

    def forget(self, broker_id: int) -> None:
        """Close the connections to a broker that is gone; what is open fails."""
