"""A log to be harmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.log_files.hostile import segments
from tests.spark.logs import many_batches, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three records a batch in several segments: offsets 0 to 59."""
    directory = write_log(tmp_path / "data", steps=list(many_batches(20)), segment_bytes=1000, interval=0)
    assert len(segments(directory)) >= 3
    return directory
