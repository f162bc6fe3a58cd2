"""A broker that serves metrics."""

from __future__ import annotations

import pytest

from tests.broker.telemetry.metered import ON


@pytest.fixture
def broker(brokers):
    return brokers.start(ON)
