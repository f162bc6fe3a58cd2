"""Every test that takes `way` runs twice: as if each fetch were the first of its kind, and with those that repeat on their shorter way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from milepost.broker.fetch.repeated_consumer import RepeatedConsumerFetch

HANDLE = RepeatedConsumerFetch.handle


class Way:
    def __init__(self, is_repeated: bool):
        self.is_repeated = is_repeated
        self.taken = 0

    def handle(self, repeated: RepeatedConsumerFetch, request: Any) -> bool:
        is_taken = self.is_repeated and HANDLE(repeated, request)
        self.taken += is_taken
        return is_taken


@pytest.fixture(params=["full", "repeated"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    way = Way(request.param == "repeated")
    monkeypatch.setattr(RepeatedConsumerFetch, "handle", lambda self, request: way.handle(self, request))
    yield way
    assert bool(way.taken) is way.is_repeated, f"{way.taken} fetches were known as repeated"
