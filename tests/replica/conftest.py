"""A follower's fetcher and its leader."""

from __future__ import annotations

import pytest

from tests.replica.fetching import Pair


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.close()
