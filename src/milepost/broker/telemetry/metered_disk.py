"""The disk of a broker, which notes how long an fsync takes (LogFlushRateAndTimeMs): on whatever thread it happens."""

from __future__ import annotations

import time

from milepost.files import Disk
from milepost.metrics.histogram import Histogram


class MeteredDisk(Disk):
    def __init__(self) -> None:
        self.flush_times = Histogram(scale=1000.0)

    def fsync(self, fd: int) -> None:
        start = time.monotonic()
        super().fsync(fd)
        self.flush_times.add(time.monotonic() - start)
