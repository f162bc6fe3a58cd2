"""Connections that were closed for what came in on them: counted, and logged.

A frame that is none, a request that does not parse, an API that is not served. Clients do not send such things by accident for
long, so the operator should see it; and a client that sends a thousand a second should not fill the disk with it: at most one line
a second for an address, which says how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("milepost.net")

QUIET_SECONDS = 1.0
MOST_ADDRESSES = 1000


class Refusals:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic):
        self.count = 0
        self._monotonic = monotonic
        # By address: when it was last told of, and how often it was refused since.
        self._told: dict[str, tuple[float, int]] = {}

    def note(self, peer: str, reason: str) -> None:
        """`peer` is `address:port`. The reason is our own sentence; a stranger's words in it are escaped where it is made."""
        self.count += 1
        address = peer.rpartition(":")[0]
        now = self._monotonic()
        since, untold = self._told.get(address, (now - QUIET_SECONDS, 0))
        if now - since < QUIET_SECONDS:
            self._told[address] = since, untold + 1
            return
        if len(self._told) >= MOST_ADDRESSES:
            self._told.clear()
        self._told[address] = now, 0
        more = f" (and {untold} more from {address})" if untold else ""
        logger.warning("%s: connection closed: %s%s", peer, reason, more)
