"""A log to be harmed, and readers of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from milepost.record.batches import iter_batches
from milepost.spark.options import SourceOptions
from milepost.spark.reader import MilepostReader
from tests.spark.rows import ALL, read_rows


def offsets(options: dict[str, Any]) -> list[int]:
    return [row["offset"] for row in read_rows(options)]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def positions(path: Path) -> list[tuple[int, int, int]]:
    """(position, base offset, last offset) of every batch."""
    found, at = [], 0
    for batch in iter_batches(path.read_bytes()):
        found.append((at, batch.base_offset, batch.last_offset))
        at += batch.size
    return found


def strict(directory: Path, **more: object) -> dict[str, Any]:
    return {"path": directory.parent, "subscribe": "t", "endOfLog": "logEnd", **more}


def quarantine(directory: Path, aside: Path, **more: object) -> dict[str, Any]:
    return strict(directory, mode="quarantine", quarantinePath=aside, **more)


def planned(log: Path, **more: object) -> MilepostReader:
    options = {name: str(value) for name, value in strict(log, **more).items()}
    return MilepostReader(SourceOptions.parse(options, streaming=False), ALL)


COMMITTED = {"kafka.isolation.level": "read_committed"}
