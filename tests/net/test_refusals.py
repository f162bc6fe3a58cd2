"""What is told of connections that are closed for what they sent: enough to know, and no more than a line a second."""

from __future__ import annotations

from milepost.net.refusals import MOST_ADDRESSES, Refusals


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_is_told_of_once_a_second_with_the_number_that_went_untold(caplog):
    time = Time()
    refusals = Refusals(time)
    for port in range(1000):
        refusals.note(f"10.0.0.1:{port}", "no frame")
    refusals.note("10.0.0.2:7", "no frame either")
    time.now += 1.0
    refusals.note("10.0.0.1:2000", "again")
    assert caplog.messages == [
        "10.0.0.1:0: connection closed: no frame",
        "10.0.0.2:7: connection closed: no frame either",
        "10.0.0.1:2000: connection closed: again (and 999 more from 10.0.0.1)",
    ]
    assert refusals.count == 1002


def test_addresses_without_end_are_not_remembered_without_end():
    refusals = Refusals(Time())
    for number in range(10 * MOST_ADDRESSES):
        refusals.note(f"10.0.{number}:1", "no frame")
    assert len(refusals._told) <= MOST_ADDRESSES
    assert refusals.count == 10 * MOST_ADDRESSES
