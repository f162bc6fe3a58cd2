"""A partition to be damaged and repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_fixture import Golden


@pytest.fixture
def crash(golden: Golden, tmp_path: Path) -> Path:
    return golden("unclean/kafka-3.9.1-killed-after", tmp_path) / "logdir" / "crash-0"
