"""Verification of a partition in stretches, and putting together what the stretches found.

`inspect.verify` walks a partition from its first batch to its last, which one core does. Here each stretch is walked by a task with
the same code, beginning with the producer snapshot that stands at its start; what concerns the whole log (offsets that no segment holds,
leader epochs, checkpoints) is judged at the end, from what the stretches saw. The findings are those of `milepost verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from milepost.files import Disk
from milepost.inspect.verify.findings import Finding, Report
from milepost.inspect.verify.verify_epochs import EpochChange
from milepost.inspect.verify.verify_partition import PartitionCheck
from milepost.inspect.verify.verify_producers import ProducerReplay
from milepost.inspect.verify.verify_segment import Gap, LogState
from milepost.segment import names
from milepost.spark.jobs.stretch import Stretch


@dataclass(frozen=True, slots=True)
class Checked:
    """What a task found in its stretch, and what the next one must fit to."""

    stretch: Stretch
    report: Report
    next_offset: int
    last_offset: int
    changes: list[EpochChange] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lost: set[Gap] = field(default_factory=set)
    looks_compacted: bool = False
    epochs_fall: bool = False


class StretchCheck(PartitionCheck):
    def run_stretch(self, stretch: Stretch) -> Checked:
        self._list_files(quiet=True)
        first = stretch.bases[0]
        state = self.state = LogState(first, ProducerReplay(self.path, first, self._pending), lost=set(self._accepted))
        behind = stretch.next_base
        # The snapshot at the start is what the stretch before is compared with; the one at the end is this one's to compare.
        self._pending = [
            offset for offset in self._pending if (offset > first or stretch.is_first) and (behind is None or offset <= behind)
        ]
        for place, base in enumerate(stretch.bases):
            following = stretch.bases[place + 1] if place + 1 < len(stretch.bases) else behind
            self._segment(base, following, state, True)
        self._settle_snapshots(state.next_offset)
        return Checked(
            stretch,
            self.report,
            state.next_offset,
            state.last_offset,
            state.changes,
            state.gaps,
            state.lost,
            state.looks_compacted,
            state.epochs_fall,
        )

    def run_whole(self, parts: Sequence[Checked]) -> None:
        """Judge the partition from its checked stretches, in their order."""
        self.report.partitions += 1
        self._list_files(quiet=False)
        first = parts[0].stretch.bases[0] if parts else 0
        state = self.state = LogState(first, ProducerReplay(self.path, first, ()), lost=set(self._accepted))
        for part in parts:
            add_counts(self.report, part.report)
            self._join(state, part)
        end = state.next_offset
        self._pending = [offset for offset in self._pending if offset > end]
        self._check_gaps(state)
        self._check_whole_log(state)

    def _join(self, state: LogState, part: Checked) -> None:
        first = part.stretch.bases[0]
        if first > state.next_offset:
            state.gaps.append(Gap(f"{self.path}/{names.file_name(first, names.LOG)}", state.next_offset, first))
        for change in part.changes:
            if change.epoch < state.last_epoch:
                what = f"the batch at offset {change.offset} carries leader epoch {change.epoch}, and an earlier one {state.last_epoch}"
                file = f"{self.path}/{names.file_name(first, names.LOG)}"
                self.report.add(Finding(file, what, "compare with another replica"))
                state.epochs_fall = True
            elif change.epoch > state.last_epoch:
                before = {"previous": state.last_epoch, "last_offset": state.last_offset}
                state.changes.append(change if change.previous >= 0 else replace(change, **before))
                state.last_epoch = change.epoch
        state.gaps += part.gaps
        state.lost |= part.lost
        state.looks_compacted = state.looks_compacted or part.looks_compacted
        state.epochs_fall = state.epochs_fall or part.epochs_fall
        state.next_offset = max(state.next_offset, part.next_offset)
        state.last_offset = max(state.last_offset, part.last_offset)


def check_stretch(stretch: Stretch, headers_only: bool) -> Checked:
    return StretchCheck(Disk(), stretch.directory, Report(), headers_only).run_stretch(stretch)


def add_counts(whole: Report, part: Report) -> None:
    for finding in (*part.findings, *part.notes):
        whole.add(finding)
    for count in ("partitions", "segments", "batches", "records", "bytes"):
        setattr(whole, count, getattr(whole, count) + getattr(part, count))
