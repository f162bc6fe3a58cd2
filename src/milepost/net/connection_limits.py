"""How many connections there may be: in all, and from one address.

Over the limit in all, the server closes the connection that has been silent longest to make room; over the limit for
one address, the new connection is closed at once: room made for it would be taken from others.
"""

from __future__ import annotations

import resource
from collections import Counter
from dataclasses import dataclass, field

NO_LIMIT = 2**31 - 1


def default_limit() -> int:
    """Four fifths of the descriptors this process may have: logs need the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else max(1, soft * 4 // 5)


@dataclass(slots=True)
class ConnectionLimits:
    total: int = field(default_factory=default_limit)
    per_address: int = NO_LIMIT
    overrides: dict[str, int] = field(default_factory=dict)
    open: Counter[str] = field(default_factory=Counter)

    def admits(self, address: str) -> bool:
        return self.open[address] < self.overrides.get(address, self.per_address)

    @property
    def is_full(self) -> bool:
        return self.open.total() >= self.total

    def opened(self, address: str) -> None:
        self.open[address] += 1

    def closed(self, address: str) -> None:
        self.open[address] -= 1
        if self.open[address] <= 0:
            del self.open[address]
