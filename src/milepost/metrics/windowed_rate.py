"""How much came per second, lately: in samples of one window each, of which so many are kept (Kafka's SimpleRate).

    recorded   into the current sample; when that is a window old, the next one begins
    forgotten  a sample in which nothing was recorded for all windows together
    measured   what all samples hold, over the time since the oldest began, or over one window if that is longer

One sample more is kept than there are windows: the oldest may reach into the time that counts with a part of it. A sample that is
forgotten begins anew at that moment. So at first, and after a pause, a burst counts as if it had taken a window at least.

Unlike `rate`, which reads a number that somebody counts anyway, this one is told of each event, and answers for any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Sample:
    start_ms: int
    last_event_ms: int
    value: float = 0.0


class WindowedRate:
    def __init__(self, now_ms: Callable[[], int], windows: int, window_ms: int):
        self._now_ms = now_ms
        self._windows = windows
        self._window_ms = window_ms
        self._samples: list[Sample] = []
        self._current = 0

    def record(self, value: float) -> None:
        now = self._now_ms()
        sample = self._sample(now)
        if now - sample.start_ms >= self._window_ms:
            self._current = (self._current + 1) % (self._windows + 1)
            if self._current == len(self._samples):
                self._samples.append(Sample(now, now))
            sample = self._samples[self._current]
            sample.start_ms, sample.value = now, 0.0
        sample.value += value
        sample.last_event_ms = now

    def _sample(self, now: int) -> Sample:
        if not self._samples:
            self._samples.append(Sample(now, now))
        return self._samples[self._current]

    @property
    def per_second(self) -> float:
        now = self._now_ms()
        self._sample(now)
        for sample in self._samples:
            if now - sample.last_event_ms >= self._windows * self._window_ms:
                sample.start_ms, sample.last_event_ms, sample.value = now, now, 0.0
        elapsed_ms = now - min(sample.start_ms for sample in self._samples)
        return sum(sample.value for sample in self._samples) * 1000 / max(elapsed_ms, self._window_ms)
