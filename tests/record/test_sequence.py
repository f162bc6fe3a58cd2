"""Producer sequences wrap from 2147483647 to 0, in both directions."""

from __future__ import annotations

import pytest

from milepost.record.sequence import decrement_sequence, increment_sequence


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [
        (0, 0, 0),
        (5, 10, 15),
        (2147483646, 1, 2147483647),
        (2147483647, 0, 2147483647),
        (2147483647, 1, 0),
        (2147483647, 2, 1),
        (2147483646, 3, 1),
        (2147483647, 2147483647, 2147483646),
    ],
)
def test_after_the_largest_sequence_comes_zero(sequence, increment, result):
    assert increment_sequence(sequence, increment) == result


@pytest.mark.parametrize(
    ("sequence", "decrement", "result"),
    [(15, 10, 5), (0, 0, 0), (0, 1, 2147483647), (1, 3, 2147483646), (2147483646, 2147483647, 2147483647)],
)
def test_before_zero_comes_the_largest_sequence(sequence, decrement, result):
    assert decrement_sequence(sequence, decrement) == result
