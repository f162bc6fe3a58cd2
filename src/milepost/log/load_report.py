"""What loading a log had to do, for operators and tests.

What was damaged is a note, for whoever asks for the report and may be looking at a copy in memory; and a warning, with what was done
and which file keeps the bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.codec.text import counted
from milepost.segment import names
from milepost.segment.file_records import Hole
from milepost.segment.recovery import KEPT_TAIL, Recovered

if TYPE_CHECKING:
    from milepost.segment.segment import Segment

logger = logging.getLogger("milepost.log")


@dataclass(slots=True)
class LoadReport:
    bytes_cut: int = 0
    recovered: list[int] = field(default_factory=list)
    rebuilt: list[int] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def read_through(self) -> list[int]:
        """The segments that were read because the log was not closed cleanly."""
        return [base for base in self.recovered if base not in self.rebuilt]

    def tell(self, segment: Segment, found: Recovered, is_in_memory: bool) -> None:
        """What the recovery of a segment cut off or left out."""
        self.bytes_cut += found.bytes_cut
        self.holes += found.holes
        # Whoever shows logs in memory asks them for their holes.
        for hole in found.holes if not is_in_memory else ():
            logger.warning("%s", _hole(segment, hole))
        if not found.bytes_cut:
            return
        cut, were = counted(found.bytes_cut, "byte"), "was" if found.bytes_cut == 1 else "were"
        what = f"{segment.log.path}: {cut} behind offset {found.next_offset - 1} {were} not a whole batch and {were} cut off"
        which = "a copy is" if found.bytes_cut <= KEPT_TAIL else f"the first {KEPT_TAIL} are"
        self._tell(what, f"{which} kept as {found.kept}" if found.kept else "nothing but zeros", is_in_memory)

    def tell_rebuilt(self, base_offset: int, damage: Exception, is_in_memory: bool) -> None:
        self.rebuilt.append(base_offset)
        self._tell(str(damage), "the indexes of this segment are rebuilt from its log", is_in_memory)

    def _tell(self, what: str, done: str, is_in_memory: bool) -> None:
        self.notes.append(what)
        logger.warning("%s%s", what, "" if is_in_memory else f"; {done}")


def _hole(segment: Segment, hole: Hole) -> str:
    name = names.hole_name(segment.base_offset, hole.position, hole.end, hole.first_offset, hole.next_offset)
    lost = "no offset is missing"
    if hole.next_offset > hole.first_offset:
        lost = f"offsets {hole.first_offset} to {hole.next_offset - 1} cannot be read, {hole.next_offset} is the next that can"
    return (
        f"{segment.log.path}: bytes {hole.position} to {hole.end} are no valid batch: {lost}; a copy of the bytes is kept as "
        f"{segment.directory}/{name}; fetch them from a replica, or run milepost repair"
    )


def summary(reports: Iterable[LoadReport]) -> str:
    """One sentence about a whole start; empty when there was nothing to do. What was damaged, each by itself, is in the warnings."""
    reports = list(reports)
    unclean = [len(report.read_through) for report in reports if report.read_through]
    said = ""
    if unclean:
        were = "partition was" if len(unclean) == 1 else "partitions were"
        said = f"{len(unclean)} {were} not closed cleanly, {counted(sum(unclean), 'segment')} of {'it' if len(unclean) == 1 else 'them'}"
        said += f" {'was' if sum(unclean) == 1 else 'were'} read through"
    done = []
    if holes := sum(len(report.holes) for report in reports):
        done.append(f"{counted(holes, 'damaged stretch', 'damaged stretches')} {'was' if holes == 1 else 'were'} left out")
    if cut := sum(report.bytes_cut for report in reports):
        done.append(f"{counted(cut, 'byte')} {'was' if cut == 1 else 'were'} cut off")
    if rebuilt := sum(len(report.rebuilt) for report in reports):
        done.append(f"indexes were rebuilt for {counted(rebuilt, 'segment')}")
    if done:
        said = ": ".join(part for part in (said, ", ".join(done)) if part) + "; the warnings say where"
    return said
