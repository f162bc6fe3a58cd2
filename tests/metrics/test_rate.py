"""How fast a number grows."""

from __future__ import annotations

import pytest

from milepost.metrics.rate import Rate


class Growing:
    """A number and a clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 50.0
        self.total = 7.0
        self.rate = Rate(lambda: self.total, lambda: self.now)

    def go_on(self, seconds: int, per_second: float) -> None:
        for _ in range(seconds):
            self.now += 1
            self.total += per_second
            self.rate.sample()


def test_rate_of_a_number_that_stands_still_is_0():
    growing = Growing()
    assert growing.rate.value == 0.0
    growing.go_on(5, 0)
    assert growing.rate.value == 0.0


def test_rate_is_per_second_since_the_start_when_that_is_not_long_ago():
    growing = Growing()
    growing.go_on(10, 3)
    assert growing.rate.value == pytest.approx(3.0)


def test_rate_speaks_of_the_last_half_minute():
    growing = Growing()
    growing.go_on(300, 100)
    growing.go_on(30, 2)
    assert growing.rate.value == pytest.approx(2.0)


def test_share_of_time_is_the_rate_of_seconds():
    growing = Growing()
    growing.go_on(15, 1.0)
    growing.go_on(15, 0.0)
    assert growing.rate.value == pytest.approx(0.5)


def test_rate_that_nobody_samples_is_right_when_it_is_asked_for():
    growing = Growing()
    growing.now += 4
    growing.total += 20
    assert growing.rate.value == pytest.approx(5.0)


def test_samples_are_few_however_often_they_are_taken():
    growing = Growing()
    for _ in range(100_000):
        growing.now += 0.001
        growing.rate.sample()
    assert len(growing.rate._samples) <= 62
