"""The member ids that were given out and that nobody has come back with (MEMBER_ID_REQUIRED), of all classic groups together.

An id costs memory, and the first one of a group costs a group, before anybody is known to be there; each lives as long as its session
would, up to half an hour. So there is room for MOST_BYTES of them: for a new one the oldest are forgotten. Who comes back with such an
id gets UNKNOWN_MEMBER_ID (25), and asks for another one.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_BYTES = 32 << 20
MEMBER_BYTES, GROUP_BYTES = 1_000, 3_000
"""About what an id and its timer take, and what a group takes, without the texts."""

Place = tuple[str, str]
"""Group id and member id."""


class PendingMembers:
    def __init__(self, most_bytes: int = MOST_BYTES):
        self._most_bytes = most_bytes
        self._forget: dict[Place, Callable[[], None]] = {}
        """Oldest first."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._forget)

    def add(self, group_id: str, member_id: str, forget: Callable[[], None]) -> None:
        """`forget` is called when room is needed; it has to lead to `discard`."""
        self._forget[group_id, member_id] = forget
        self.bytes += size_of(group_id, member_id)
        while self.bytes > self._most_bytes and len(self._forget) > 1:
            next(iter(self._forget.values()))()

    def discard(self, group_id: str, member_id: str) -> None:
        if self._forget.pop((group_id, member_id), None) is not None:
            self.bytes -= size_of(group_id, member_id)


def size_of(group_id: str, member_id: str) -> int:
    return GROUP_BYTES + MEMBER_BYTES + len(group_id) + 3 * len(member_id)
