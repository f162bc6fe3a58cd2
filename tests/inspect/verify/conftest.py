"""A partition to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.inspect.verify.verify import verify
from tests.golden_fixture import Golden
from tests.inspect.verify.damaging import CLEAN


@pytest.fixture
def crash(golden: Golden, tmp_path: Path) -> Path:
    """A private copy of a clean partition with transactions and four segments: 0, 31, 62, 94, end 141."""
    directory = golden(CLEAN, tmp_path) / "logdir" / "crash-0"
    assert verify(str(directory)).is_clean
    return directory
