"""Counts, sums and percentiles of many values in little memory."""

from __future__ import annotations

import random
import threading

import pytest

from milepost.metrics.histogram import Histogram


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def filled(values, **settings) -> Histogram:
    histogram = Histogram(**settings)
    for value in values:
        histogram.add(value)
    return histogram


def test_histogram_that_nothing_was_added_to_is_all_zero():
    histogram = Histogram()
    assert (histogram.count, histogram.total) == (0, 0.0)
    assert histogram.quantiles([0.5, 0.99, 1]) == [0.0, 0.0, 0.0]


def test_count_sum_and_largest_are_exact():
    histogram = filled(range(1, 101))
    assert (histogram.count, histogram.total) == (100, 5050.0)
    assert histogram.quantiles([1]) == [100.0]


@pytest.mark.parametrize("scale", [0.000001, 1.0, 50_000.0])
def test_percentiles_of_evenly_spread_values_are_right_to_four_percent(scale):
    values = [number * scale for number in range(1, 10_001)]
    random.Random(5).shuffle(values)
    found = filled(values).quantiles([0.5, 0.75, 0.95, 0.99, 0.999])
    assert found == pytest.approx([5000 * scale, 7500 * scale, 9500 * scale, 9900 * scale, 9990 * scale], rel=0.04)


def test_percentile_is_never_above_the_largest_value():
    assert filled([0.3]).quantiles([0.5, 0.999, 1]) == [0.3, 0.3, 0.3]


def test_zeros_are_a_value_like_any_other():
    histogram = filled([0.0] * 98 + [4.0, 4.0])
    assert histogram.quantiles([0.5, 0.98]) == [0.0, 0.0]
    assert histogram.quantiles([0.99, 1]) == pytest.approx([4.0, 4.0], rel=0.04)
    assert (histogram.count, histogram.total) == (100, 8.0)


def test_values_are_scaled_when_they_are_read():
    histogram = filled([0.25, 0.75], scale=1000.0)
    assert (histogram.total, histogram.quantiles([1])) == (1000.0, [750.0])


def test_value_counts_as_often_as_its_weight_says():
    histogram = Histogram()
    histogram.add_all([1.0, 100.0], [99, 1])
    assert (histogram.count, histogram.total) == (100, 199.0)
    assert histogram.quantiles([0.5, 0.98]) == pytest.approx([1.0, 1.0], rel=0.04)


def test_memory_is_bounded_however_many_values_come():
    histogram = Histogram()
    generator = random.Random(1)
    for _ in range(50_000):
        histogram.add(generator.uniform(1e-9, 1e-6) * 2 ** generator.randrange(40))
    assert histogram.count == 50_000
    assert len(histogram._waiting) == 0
    assert len(histogram._now.slots) < 1000


def test_percentiles_forget_what_is_older_than_two_windows():
    time = Time()
    histogram = Histogram(monotonic=time)
    histogram.add(100.0)
    histogram.settle()
    time.now += 61
    histogram.add(1.0)
    assert histogram.quantiles([1]) == [100.0]
    time.now += 61
    histogram.add(1.0)
    assert histogram.quantiles([1]) == [1.0]
    assert (histogram.count, histogram.total) == (3, 102.0)


def test_percentiles_after_a_long_silence_are_of_what_comes_then():
    time = Time()
    histogram = Histogram(monotonic=time)
    histogram.add(100.0)
    histogram.settle()
    time.now += 3600
    assert histogram.quantiles([1]) == [100.0], "nothing came since: the last word stands"
    histogram.add(2.0)
    assert histogram.quantiles([0.5, 1]) == [2.0, 2.0]


def test_values_added_by_many_threads_are_all_counted():
    histogram = Histogram()

    def add() -> None:
        for _ in range(5000):
            histogram.add(1.0)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (histogram.count, histogram.total) == (20_000, 20_000.0)
