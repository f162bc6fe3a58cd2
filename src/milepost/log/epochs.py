"""The leader epochs of a partition: at which offset each leader began to write (`leader-epoch-checkpoint`, KIP-101).

    0            version
    2            number of entries
    0 0          epoch, start offset: both strictly rising
    3 1250

An epoch ends where the next one starts, the latest at the log's end. A follower that asks "where did epoch 2 end?"
learns up to where its log and its leader's agree, and cuts the rest.

The file is written whole at every change (temporary file, fsync, rename), so it changes only when a leader does. Each
batch carries its leader's epoch, so a damaged or lost file can be learnt again from the log; `load` says when it must
be.

Not promised: that an epoch without records leaves an entry.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from milepost.errors import CorruptCheckpoint, InvalidArgument
from milepost.files import Disk
from milepost.frozen_dataclass import frozen_dataclass
from milepost.log.directory.checkpoints import MAX_INT, MAX_LONG, keep_aside, parse_number, read_entries, write_entries

logger = logging.getLogger("milepost.log")

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@frozen_dataclass
class EpochEntry:
    epoch: int
    start_offset: int


class LeaderEpochCache:
    def __init__(self, path: str, disk: Disk, entries: Sequence[EpochEntry] | None = None):
        """Reads the file unless `entries` are given; makes an empty one if there is none."""
        self.path = path
        self.disk = disk
        # Set by a log whose owner must not wait for the disk.
        self.write_in_background: Callable[[list[str]], None] | None = None
        self._set(self.read(path, disk) if entries is None else entries)
        if not disk.exists(path):
            disk.close(disk.open(path, os.O_WRONLY | os.O_CREAT))

    @classmethod
    def load(cls, path: str, disk: Disk) -> tuple[LeaderEpochCache, bool]:
        """The cache, and whether the file was damaged: the cache is then empty, the bad file lies beside as `.bad`."""
        try:
            return cls(path, disk), False
        except CorruptCheckpoint as damage:
            logger.warning("%s; a copy is kept as %s and the epochs are read from the log", damage, keep_aside(disk, path))
        # The bad file stays until the next change: a crash before that finds the damage again.
        return cls(path, disk, ()), True

    @staticmethod
    def read(path: str, disk: Disk) -> list[EpochEntry]:
        entries: list[EpochEntry] = []
        for line, (epoch, start_offset) in enumerate(read_entries(disk, path, 2), 3):
            entry = EpochEntry(parse_number(epoch, MAX_INT, path, line), parse_number(start_offset, MAX_LONG, path, line))
            if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset <= entries[-1].start_offset):
                raise CorruptCheckpoint(
                    f"{path}, line {line}: epoch {entry.epoch} from offset {entry.start_offset} does not rise above "
                    f"epoch {entries[-1].epoch} from offset {entries[-1].start_offset}"
                )
            entries.append(entry)
        return entries

    def _set(self, entries: Sequence[EpochEntry]) -> None:
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]
        # Kept apart for `assign`, which is called for every batch and nearly always has nothing to do.
        self._latest_epoch = self._epochs[-1] if entries else None
        self._latest_start = self._starts[-1] if entries else 0

    def move_to(self, directory: str) -> None:
        """The file is in that directory now."""
        self.path = f"{directory}/{FILE_NAME}"

    def _write(self, entries: Sequence[EpochEntry]) -> None:
        """File first: if it cannot be written, memory still says what the file says. Where it is written aside, memory goes ahead."""
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
        if self.write_in_background is None:
            self.write_lines(lines)
            self._set(entries)
        else:
            self._set(entries)
            self.write_in_background(lines)

    def write_lines(self, lines: list[str]) -> None:
        write_entries(self.disk, self.path, lines)

    def rewrite(self) -> None:
        """Write the file once more: the last time there was no room for it."""
        self._write(self.entries)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    @property
    def is_empty(self) -> bool:
        return not self._epochs

    @property
    def latest_epoch(self) -> int | None:
        return self._latest_epoch

    @property
    def latest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    @property
    def earliest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, offset: int) -> None:
        """The leader of `epoch` wrote at `offset`: later epochs, and entries at or behind that offset, are overruled."""
        if epoch == self._latest_epoch and offset >= self._latest_start:
            return
        if epoch < 0 or offset < 0:
            raise InvalidArgument(f"{self.path}: leader epoch {epoch} at offset {offset}; neither can be negative")
        kept = self.entries
        while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= offset):
            kept.pop()
        self._write([*kept, EpochEntry(epoch, offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest known epoch not above `epoch`, the offset where it ends); (-1, -1) when nothing is known.

        An epoch older than all entries is answered with itself and the start of the first entry.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that start at or behind `offset`: the log ends there now."""
        if offset >= 0 and self._epochs and self._latest_start >= offset:
            self._write(self.entries[: bisect_left(self._starts, offset)])

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that ended at or below `offset`: the log starts there now, and so does the epoch it lies in."""
        gone = bisect_right(self._starts, offset)
        if gone and (gone > 1 or self._starts[0] != offset):
            entries = self.entries
            self._write([EpochEntry(entries[gone - 1].epoch, offset), *entries[gone:]])

    def replace(self, entries: Sequence[EpochEntry]) -> None:
        """Put what was learnt from the log in place of everything, at once: half of it would look like all of it."""
        self._write(entries)

    def clear(self) -> None:
        if self._epochs:
            self._write(())
