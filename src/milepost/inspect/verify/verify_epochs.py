"""Leader epochs: the file beside the log, against the epoch that every batch carries.

Each batch was written by a leader, and carries that leader's epoch. Epochs never fall along the log. Where they rise, the
file must say the same: the offset belongs to the new epoch, the one before it to the old one. The file may know epochs
that wrote nothing, and may start later than the log where the log's start was moved up. What it says of offsets that are in no
batch nobody can tell: compaction takes batches, and the file keeps what they proved.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from milepost.inspect.verify.findings import Finding, Remedy
from milepost.log.epochs import EpochEntry

NONE = -1


@dataclass(frozen=True, slots=True)
class EpochChange:
    """The batch at `offset` carries `epoch`, for the first time; the batch before it ends at `last_offset` and carries `previous`."""

    epoch: int
    offset: int
    previous: int
    last_offset: int


def corrected(entries: list[EpochEntry], changes: list[EpochChange], last_offset: int, log_start: int, log_end: int) -> list[EpochEntry]:
    """The entries of the file, but for those that batches contradict; `last_offset` is the last one that a batch has.

    Compaction takes batches and leaves the file: an epoch without batches stays, and so does a start that lies between two batches.
    """
    starts = {entry.epoch: entry.start_offset for entry in entries}
    right: list[EpochEntry] = []
    least, previous = 0, NONE
    for change in changes:
        if change.previous > NONE:
            least = change.last_offset + 1
        most = max(change.offset, log_start)
        start = starts.get(change.epoch, NONE)
        if not least <= start <= most:
            start = most
        right += [entry for entry in entries if previous < entry.epoch < change.epoch and least <= entry.start_offset]
        while right and right[-1].start_offset >= start:
            right.pop()
        right.append(EpochEntry(change.epoch, start))
        previous = change.epoch
    return right + [entry for entry in entries if entry.epoch > previous and last_offset < entry.start_offset <= log_end]


def check_epochs(path: str, entries: list[EpochEntry], changes: list[EpochChange], log_start: int, log_end: int) -> list[Finding]:
    advice = "repair corrects it by the batches"
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
