"""The transaction coordinator without a broker around it."""

from __future__ import annotations

import pytest

from tests.coordinator.transactions.transaction_fixture import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
