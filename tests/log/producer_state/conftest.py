"""What is known of producers, with and without a start in between."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.files import Disk
from milepost.log.producer_state.producers import ProducerStateManager


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000)


@pytest.fixture
def manager(tmp_path, clock) -> ProducerStateManager:
    return ProducerStateManager(str(tmp_path), Disk(), clock)


@pytest.fixture
def reopened(tmp_path, clock):
    """Another manager on the same directory, as after a restart."""
    return lambda: ProducerStateManager(str(tmp_path), Disk(), clock)
