"""How many connections there may be: in all, from one address, and how many new ones in a second.

Over the limit in all, the server makes room among the connections of the address that has most, so that one address does not drive out
another; it closes the one that has been silent longest, and first those that never said anything. Over the limit for one address, the
new connection is closed at once: room made for it would be taken from others. Over the rate, new ones wait to be accepted.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from milepost.files import handles

NO_LIMIT = 2**31 - 1
OTHER_DESCRIPTORS = 32  # epoll, listeners, locks, files that are written and renamed
RATE_SECONDS = 1.0


def default_limit() -> int:
    """Four fifths of the descriptors this process may have, or less if that would leave the logs without theirs.

    A log that cannot open its files takes its directory offline: no crowd of connections may do that.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return NO_LIMIT
    return max(1, min(soft * 4 // 5, soft - handles.default_limit() - max(OTHER_DESCRIPTORS, soft // 16)))


def parse_overrides(pairs: Iterable[str]) -> dict[str, int]:
    """`127.0.0.1:200` and the like."""
    return {address: int(count) for address, _, count in (pair.rpartition(":") for pair in pairs)}


@dataclass(slots=True)
class ConnectionLimits:
    total: int = field(default_factory=default_limit)
    per_address: int = NO_LIMIT
    overrides: dict[str, int] = field(default_factory=dict)
    creation_rate: int = NO_LIMIT
    open: Counter[str] = field(default_factory=Counter)
    _second_began: float = 0.0
    _opened_this_second: int = 0

    def admits(self, address: str) -> bool:
        return self.open[address] < self.overrides.get(address, self.per_address)

    @property
    def is_full(self) -> bool:
        return self.open.total() >= self.total

    def wait_seconds(self, now: float) -> float:
        """How long the next connection has to wait for its turn."""
        if now - self._second_began >= RATE_SECONDS:
            self._second_began, self._opened_this_second = now, 0
        is_too_soon = self._opened_this_second >= self.creation_rate
        return self._second_began + RATE_SECONDS - now if is_too_soon else 0.0

    def opened(self, address: str) -> None:
        self.open[address] += 1
        self._opened_this_second += 1

    def closed(self, address: str) -> None:
        self.open[address] -= 1
        if self.open[address] <= 0:
            del self.open[address]
