"""A compacted log, and the time."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from tests.log.cleaning.cleaned_logs import (
    NOW,
    compacted_log,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(tmp_path, clock):
    with compacted_log(tmp_path, clock=clock) as opened:
        yield opened
