"""A member of a classic group: what it can do, what it was given, and the answers it is waiting for."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from milepost.loop import Timer
from milepost.protocol.messages import JoinGroupResponse, SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), in the member's order of preference."""


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Its first join is still waiting: it knows no member id yet and cannot heartbeat."""
    join_answer: Callable[[JoinGroupResponse], None] | None = None
    sync_answer: Callable[[SyncGroupResponse], None] | None = None
    session_timer: Timer | None = None
    session_start_ms: int = 0

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def keeps_its_session(self) -> bool:
        """Who waits for the others cannot heartbeat and is not held to it; newcomers have a longer session instead."""
        return not self.is_new and (self.join_answer is not None or self.sync_answer is not None)

    def metadata_for(self, protocol: str | None) -> bytes:
        return metadata_in(self.protocols, protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Its first choice among the protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def stop_session(self) -> None:
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None


def metadata_in(protocols: Protocols, wanted: str | None) -> bytes:
    return next((metadata for name, metadata in protocols if name == wanted), b"")


def metadata_bytes(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)
