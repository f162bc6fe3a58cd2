"""What the indexes need to know of a batch that is appended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class IndexedUnit(Protocol):
    """A batch, or a whole append seen as one: the unit of the sparse rule."""

    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int


@dataclass(slots=True)
class AppendUnit:
    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int


def merged(units: Sequence[IndexedUnit]) -> AppendUnit:
    """A whole append as one unit."""
    newest = max(units, key=lambda unit: unit.max_timestamp)
    return AppendUnit(
        units[-1].last_offset, sum(unit.size for unit in units), newest.max_timestamp, newest.offset_of_max_timestamp
    )
