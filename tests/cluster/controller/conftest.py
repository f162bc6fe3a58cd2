"""A controller, and brokers that it may tell what it decides."""

from __future__ import annotations

import pytest

from tests.cluster.controller.town import Town


@pytest.fixture
def town() -> Town:
    town = Town()
    for broker_id in (1, 2, 3):
        town.start_broker(broker_id)
    town.take_told()
    return town
