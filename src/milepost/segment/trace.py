"""What a lookup did, step by step.

Every lookup takes an optional trace and notes in it what it touched: which segment, which index slots were probed,
how many bytes were walked. The command line, the API and the tests that count pages all read the same steps; there
is no second copy of the search for teaching.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

PAGE_SIZE = 4096


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """Which segment was taken, and why: by base offset (the floor), or by largest timestamp (the first not below)."""

    rule: str
    target: int
    base_offset: int
    compared: int
    largest_timestamp: int | None = None
    next_base_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    slot: int
    key: int


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """One binary search in an index file. `slot` is None when the target lies before the first entry."""

    file: str
    entry_size: int
    entries: int
    target: int
    probes: tuple[Probe, ...]
    warm: bool
    slot: int | None
    entry: tuple[int, int]
    next_entry: tuple[int, int] | None

    @property
    def pages(self) -> int:
        """Distinct pages of the index file that the probes touched."""
        return len({probe.slot * self.entry_size // PAGE_SIZE for probe in self.probes})


@dataclass(frozen=True, slots=True)
class LogScan:
    """A walk over batch headers (and, for a timestamp, over the records of one batch) from an index position."""

    file: str
    start_position: int
    position: int | None
    bytes_skipped: int
    batches_skipped: int
    records_rejected: int = 0


Step = Union[SegmentChoice, IndexSearch, LogScan]


@dataclass(slots=True)
class Trace:
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)
