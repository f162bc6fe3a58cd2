"""Repairing a data directory at one moment, with small indexes."""

from __future__ import annotations

from pathlib import Path

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.inspect.repair.repair import plan_repair
from milepost.inspect.repair.repair_apply import apply_repair

CONFIG = LogConfig.parse({"index.interval.bytes": 256, "segment.index.bytes": 1024})
CLOCK = ManualClock(1_700_000_000_000)


def repaired(directory: Path, config: LogConfig = CONFIG) -> Path:
    """Repair a data directory; where it keeps what it replaced."""
    kept, left = apply_repair(plan_repair(str(directory), config), clock=CLOCK)
    assert left.is_empty
    return Path(kept)
