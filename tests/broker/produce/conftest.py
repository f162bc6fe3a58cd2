"""The ways in for produce requests: the compiled frames, their plain twin, and the handler. Whatever the way, all is the same."""

from __future__ import annotations

import pytest

from tests.broker.produce.ways import WAYS, take_way


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the brokers that are started from here on."""
    take_way(request.param, monkeypatch)
    return request.param
