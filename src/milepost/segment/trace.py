"""What a lookup did, step by step.

Every lookup takes an optional trace and notes in it what it touched: which segment, which index slots were probed,
how many bytes were walked. The command line, the API and the tests that count pages all read the same steps; there
is no second copy of the search for teaching.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from milepost.frozen_dataclass import frozen_dataclass

PAGE_SIZE = 4096


@frozen_dataclass
class SegmentChoice:
    """Which segment was taken, and by which rule:

    "floor": the greatest base offset not above the target; "first not older": the first whose largest timestamp is not below the
    target; "next": the one behind, because the one before it held nothing at or after the target.
    """

    rule: str
    target: int
    base_offset: int
    compared: int
    largest_timestamp: int | None = None
    next_base_offset: int | None = None


@frozen_dataclass
class Probe:
    slot: int
    key: int


@frozen_dataclass
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
    previous_entry: tuple[int, int] | None = None

    @property
    def pages(self) -> int:
        """Distinct pages of the index file that the probes touched."""
        return len({probe.slot * self.entry_size // PAGE_SIZE for probe in self.probes})


@frozen_dataclass
class LogScan:
    """A walk over batch headers, then over the records of the batch that was found, from an index position."""

    file: str
    start_position: int
    position: int | None
    bytes_skipped: int
    batches_skipped: int
    records_rejected: int = 0


Step: TypeAlias = SegmentChoice | IndexSearch | LogScan


@dataclass(slots=True)
class Trace:
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def reject(self, records: int) -> None:
        """The walk that was noted last went over this many records inside the batch it found."""
        scan = self.steps[-1]
        assert isinstance(scan, LogScan), "records are looked at after a walk"
        self.steps[-1] = replace(scan, records_rejected=scan.records_rejected + records)
