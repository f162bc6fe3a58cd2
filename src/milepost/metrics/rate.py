"""How fast a number grows: per second, over the last half minute.

The number is a count (connections opened so far) or a time (seconds spent idle so far), whose rate is a share. It is read
now and then by `sample`, which its owner calls about once a second, and when the rate is asked for: counting itself costs
nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 30.0
SAMPLE_SECONDS = 1.0


class Rate:
    def __init__(self, total: Callable[[], float], monotonic: Callable[[], float] = time.monotonic):
        self._total = total
        self._monotonic = monotonic
        # Bounded also when somebody samples more often than once a second: such samples are left out.
        self._samples: deque[tuple[float, float]] = deque([(monotonic(), total())])

    def sample(self) -> None:
        now = self._monotonic()
        if now - self._samples[-1][0] >= SAMPLE_SECONDS / 2:
            self._samples.append((now, self._total()))
        # The oldest one kept is the last that is not younger than the window.
        while len(self._samples) > 1 and self._samples[1][0] <= now - WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def value(self) -> float:
        now, total = self._monotonic(), self._total()
        self.sample()
        since, before = self._samples[0]
        return (total - before) / (now - since) if now > since else 0.0
