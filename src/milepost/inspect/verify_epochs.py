"""Leader epochs: the file beside the log, against the epoch that every batch carries.

Each batch was written by a leader, and carries that leader's epoch. Epochs never fall along the log. Where they rise, the
file must say the same: the offset belongs to the new epoch, the one before it to the old one. The file may know epochs
that wrote nothing, and may start later than the log where the log's start was moved up.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from milepost.inspect.findings import Finding, Remedy
from milepost.log.epochs import EpochEntry

NONE = -1


@dataclass(frozen=True, slots=True)
class EpochChange:
    """From `offset` on batches carry `epoch`; the batch before ends at `last_offset` and carries `previous`."""

    epoch: int
    offset: int
    previous: int
    last_offset: int


def learned(changes: list[EpochChange], log_start: int) -> list[EpochEntry]:
    """The entries of the file as the batches give them."""
    entries: list[EpochEntry] = []
    for change in changes:
        if change.epoch > (entries[-1].epoch if entries else NONE):
            if entries and change.offset <= log_start:
                entries.pop()
            entries.append(EpochEntry(change.epoch, max(change.offset, log_start)))
    return entries


def check_epochs(path: str, entries: list[EpochEntry], changes: list[EpochChange], log_start: int, log_end: int) -> list[Finding]:
    advice = "repair reads them from the batches again"
    if not entries and changes:
        what = f"no leader epochs, and the batches carry {changes[0].epoch} to {changes[-1].epoch}"
        return [Finding(path, what, "the next start reads them from the batches", remedy=Remedy.LEARN_EPOCHS, is_note=True)]
    findings = []
    starts = [entry.start_offset for entry in entries]

    def epoch_for(offset: int) -> int:
        slot = bisect_right(starts, offset) - 1
        return entries[slot].epoch if slot >= 0 else NONE

    for change in changes:
        places = [(change.offset, change.epoch), (change.last_offset, change.previous)]
        for offset, epoch in places:
            if epoch > NONE and offset >= log_start and epoch_for(offset) != epoch:
                what = f"offset {offset} belongs to epoch {epoch_for(offset)} here, and its batch carries {epoch}"
                findings.append(Finding(path, what, advice, remedy=Remedy.LEARN_EPOCHS))
    for entry in entries:
        if entry.start_offset > log_end:
            what = f"epoch {entry.epoch} starts at offset {entry.start_offset}, behind the end of the log at {log_end}"
            findings.append(Finding(path, what, advice, remedy=Remedy.LEARN_EPOCHS))
    return findings


