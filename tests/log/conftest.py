from __future__ import annotations

import pytest

from tests.descriptors import descriptors_are_given_back
from tests.log.managers import Managers

__all__ = ["descriptors_are_given_back"]


@pytest.fixture
def managers(tmp_path):
    made = Managers(tmp_path / "data")
    yield made
    made.stop()
