"""How long to wait after so many bytes, so that no more than a number of them pass in a second (`log.cleaner.io.max.bytes.per.second`).

Bytes count when they are read and when they are written, as in Kafka. Time that was not used is not saved up.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Throttle:
    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.bytes_per_second = bytes_per_second
        self.sleep = sleep
        self._monotonic = monotonic
        self._paid_until = monotonic()

    def pause_after(self, count: int) -> float:
        """The seconds to wait before the next bytes."""
        now = self._monotonic()
        self._paid_until = max(self._paid_until, now) + count / self.bytes_per_second
        return self._paid_until - now
