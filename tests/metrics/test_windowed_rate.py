"""WindowedRate gives the numbers that Kafka's SimpleRate gave for the same events (kafka-clients 3.9.1, 11 samples of one second)."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.metrics.windowed_rate import WindowedRate

# (milliseconds, recorded) or (milliseconds, None, what SimpleRate.measure gave)
EVENTS = [
    (0, None, 0.0),
    (0, 1000),
    (0, None, 1000.0),
    (500, None, 1000.0),
    (500, 3000),
    (1000, None, 4000.0),
    (1700, 2000),
    (2000, None, 3000.0),
    (5000, None, 1200.0),
    (11000, None, 545.4545454545455),
    (11499, None, 521.7845030002609),
    (11500, None, 204.0816326530612),
    (12699, None, 181.83471224656785),
    (12700, None, 0.0),
    (13000, None, 0.0),
    (13400, 700),
    (13400, None, 368.42105263157896),
    (14500, None, 233.33333333333334),
    (23000, 600),
    (23000, None, 126.2135922330097),
    (24400, None, 428.5714285714286),
    (30000, 5000),
    (31000, 5000),
    (32000, 5000),
    (33000, 5000),
    (33500, None, 1961.904761904762),
    (45000, None, 0.0),
]


def test_rate_is_kafkas_after_bursts_and_pauses():
    clock = ManualClock(0)
    rate = WindowedRate(clock.now_ms, windows=11, window_ms=1000)
    for now, recorded, *measured in EVENTS:
        clock.advance(now - clock.now_ms())
        if recorded is None:
            assert (now, rate.per_second) == (now, pytest.approx(measured[0]))
        else:
            rate.record(recorded)
