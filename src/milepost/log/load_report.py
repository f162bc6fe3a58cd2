"""What loading a log had to do, for operators and tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.segment.file_records import Hole


@dataclass(slots=True)
class LoadReport:
    bytes_cut: int = 0
    recovered: list[int] = field(default_factory=list)
    rebuilt: list[int] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
