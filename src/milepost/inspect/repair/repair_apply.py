"""Doing what a repair plan says, so that a crash in between loses nothing and a start afterwards is safe.

The owner's lock is taken first, and the marker of a clean stop is taken away (and put back at the end): until the repair is
done, the directory counts as one that crashed. Then, for every file, in this order:

    keep      a copy of what will go is written and synced: whole small files, of a log only the bytes that are taken out
    indexes   the sparse indexes of a log that changes are removed before it changes: every start rebuilds a missing index, and not
              every start a wrong one
    log       a tail is cut in place; for a hole the rest is written to `<name>.log.tmp` (which no loader looks at), synced and renamed
    derived   indexes, epochs and checkpoints are replaced (temporary file, sync, rename)

The copies lie beside the data directory (`<data directory>.repair-<time>/`), with `repair.json` saying what was done. Not
inside it: Kafka takes every directory there for a partition and does not start when the name is none.
"""

from __future__ import annotations

import json
import os
import posixpath
import random
import time

from milepost.clock import Clock, SystemClock
from milepost.errors import KafkaStorage
from milepost.files import Disk, HandlePool, Overlay, opened, read_file, remove_file, replace_file
from milepost.inspect.paths import look_at
from milepost.inspect.repair.repair import Cut, PartitionPlan, Plan, data_directory_of, plan_repair
from milepost.inspect.verify.verify_partition import gap_name
from milepost.log import epochs
from milepost.log.directory import clean_shutdown, directory_lock
from milepost.log.directory.checkpoints import read_offset_checkpoint, write_entries, write_offset_checkpoint
from milepost.log.directory.clean_shutdown import CleanShutdown, read_clean_shutdown, write_clean_shutdown
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.log.open import last_segment_size
from milepost.segment import names
from milepost.segment.index_rebuild import rebuild_indexes
from milepost.segment.segment import Segment
from milepost.segment.txn_index import ENTRY

CHUNK = 1 << 20
MOST_ROUNDS = 3


def default_keep(plan: Plan, clock: Clock) -> str:
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(clock.now_ms() // 1000))
    return f"{plan.data_directory}.repair-{moment}"


def apply_repair(plan: Plan, keep: str | None = None, disk: Disk | None = None, clock: Clock | None = None) -> tuple[str, Plan]:
    """Change what the plan says; the directory that holds what was replaced, and what is left to do: nothing, or nothing that can be done.

    DirectoryLocked when somebody owns the data directory.
    """
    disk, clock = disk or Disk(), clock or SystemClock()
    lock = DirectoryLock(plan.data_directory, disk)
    try:
        kept = Kept(disk, keep or default_keep(plan, clock))
        marker = _take_marker(disk, plan)
        steps, changed = list(plan.steps), list(plan.partitions)
        # Damage can hide damage: what only shows once the first is gone is repaired in the next round.
        for _ in range(MOST_ROUNDS):
            for partition in plan.partitions:
                PartitionRepair(disk, plan, partition, kept).run()
            _rewrite_checkpoints(disk, plan, kept)
            plan = plan_repair(plan.path, plan.config, disk)
            if plan.is_empty:
                break
            steps, changed = steps + plan.steps, changed + plan.partitions
        kept.finish([str(step) for step in steps])
        if marker is not None:
            _put_marker_back(disk, plan, marker, changed)
        return kept.path, plan
    finally:
        lock.release()


def ensure_unowned(path: str, disk: Disk | None = None) -> None:
    """DirectoryLocked when somebody owns the data directory of `path`: asked before a plan is made that could not be carried out."""
    disk = disk or Disk()
    directory = data_directory_of(look_at(disk, path))
    if disk.exists(f"{directory}/{directory_lock.FILE_NAME}"):
        DirectoryLock(directory, disk).release()


class Kept:
    """The directory of copies. It is made when the first one comes."""

    def __init__(self, disk: Disk, path: str):
        self.disk = disk
        self.path = path
        self._made: set[str] = set()
        if disk.exists(path):
            raise KafkaStorage(f"{path}: there already; name another directory for what the repair replaces")

    def _place(self, source: str, name: str = "") -> str:
        parent = posixpath.join(self.path, posixpath.basename(posixpath.dirname(posixpath.abspath(source))))
        for directory in (self.path, parent):
            self._make(directory)
        return posixpath.join(parent, name or posixpath.basename(source))

    def _make(self, directory: str) -> None:
        if directory in self._made:
            return
        try:
            if not self.disk.exists(directory):
                self.disk.mkdir(directory)
            self.disk.sync_directory(posixpath.dirname(directory))
        except OSError as error:
            reason = error.strerror or error
            raise KafkaStorage(f"{directory}: cannot keep here what the repair replaces ({reason}); name another place") from error
        self._made.add(directory)

    def copy(self, source: str) -> None:
        """The whole file, if there is one and it was not kept already."""
        if self.disk.exists(source) and not self.disk.exists(place := self._place(source)):
            size = self.disk.stat(source).st_size
            self._write(source, place, 0, size)

    def stretch(self, source: str, start: int, end: int) -> None:
        self._write(source, self._place(source, f"{posixpath.basename(source)}.bytes-{start}-{end}"), start, end)

    def _write(self, source: str, target: str, start: int, end: int) -> None:
        reader = self.disk.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            copy_stretches(self.disk, reader, target, [(start, end)])
        finally:
            self.disk.close(reader)
        self.disk.sync_directory(posixpath.dirname(target))

    def finish(self, steps: list[str]) -> None:
        path = posixpath.join(self.path, "repair.json")
        self._make(self.path)
        replace_file(self.disk, path, json.dumps({"steps": steps}, indent=2).encode())


def copy_stretches(disk: Disk, reader: int, target: str, stretches: list[tuple[int, int]]) -> None:
    """A new file that holds the stretches one behind the other, synced."""
    with opened(disk, target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as writer:
        written = 0
        for start, end in stretches:
            for position in range(start, end, CHUNK):
                piece = disk.pread(reader, min(CHUNK, end - position), position)
                disk.pwrite(writer, piece, written)
                written += len(piece)
        disk.fsync(writer)


class PartitionRepair:
    def __init__(self, disk: Disk, plan: Plan, partition: PartitionPlan, kept: Kept):
        self.disk = disk
        self.config = plan.config
        self.partition = partition
        self.kept = kept

    def _path(self, base: int, suffix: str) -> str:
        return f"{self.partition.directory}/{names.file_name(base, suffix)}"

    def run(self) -> None:
        partition = self.partition
        # First: a gap without its note would look like a lost segment, a note without its gap says nothing.
        for base, gap in partition.gaps:
            replace_file(self.disk, f"{partition.directory}/{gap_name(base, gap)}", b"")
        for base, cut in sorted(partition.cuts.items()):
            self._cut(base, cut)
        for base, suffixes in sorted(partition.indexes.items()):
            self._rebuild(base, suffixes)
        for base, entries in sorted(partition.txn_indexes.items()):
            path = self._path(base, names.TXN_INDEX)
            self.kept.copy(path)
            fields = [(0, e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset) for e in entries]
            replace_file(self.disk, path, b"".join(ENTRY.pack(*entry) for entry in fields))
        if partition.epochs is not None:
            path = f"{partition.directory}/{epochs.FILE_NAME}"
            self.kept.copy(path)
            write_entries(self.disk, path, [f"{entry.epoch} {entry.start_offset}" for entry in partition.epochs])
        for path in partition.removals:
            self.kept.copy(path)
            remove_file(self.disk, path)
        self.disk.sync_directory(partition.directory)

    def _cut(self, base: int, cut: Cut) -> None:
        path = self._path(base, names.LOG)
        if cut.offsets:
            self._write_offsets(path, cut.offsets)
        if not cut.stretches:
            return
        for start, end in cut.stretches:
            self.kept.stretch(path, start, end)
        for suffix in (names.INDEX, names.TIME_INDEX):
            self.kept.copy(self._path(base, suffix))
            remove_file(self.disk, self._path(base, suffix))
        # Copies of holes that a recovery made: with the new positions they would point anywhere.
        for name in self.disk.listdir(self.partition.directory):
            hole = names.parse_hole_name(name)
            if hole is not None and hole[0] == base:
                self.kept.copy(f"{self.partition.directory}/{name}")
                remove_file(self.disk, f"{self.partition.directory}/{name}")
        self.disk.sync_directory(self.partition.directory)
        size = self.disk.stat(path).st_size
        if cut.stretches[-1][1] == size and len(cut.stretches) == 1:
            self._truncate(path, cut.stretches[0][0])
        else:
            self._rewrite(path, remaining(cut.stretches, size))

    def _write_offsets(self, path: str, offsets: list[tuple[int, int]]) -> None:
        """In place: the offset of a batch is not covered by its CRC, and eight bytes are written whole or not at all."""
        for position, _ in offsets:
            self.kept.stretch(path, position, position + 8)
        with opened(self.disk, path, os.O_RDWR | os.O_NOFOLLOW) as fd:
            for position, offset in offsets:
                self.disk.pwrite(fd, offset.to_bytes(8, "big"), position)
            self.disk.fsync(fd)

    def _truncate(self, path: str, size: int) -> None:
        with opened(self.disk, path, os.O_RDWR | os.O_NOFOLLOW) as fd:
            self.disk.truncate(fd, size)
            self.disk.fsync(fd)

    def _rewrite(self, path: str, stretches: list[tuple[int, int]]) -> None:
        mtime = self.disk.stat(path).st_mtime
        with opened(self.disk, path, os.O_RDONLY | os.O_NOFOLLOW) as reader:
            copy_stretches(self.disk, reader, path + ".tmp", stretches)
        # Retention judges a log without timestamps by the age of its file.
        self.disk.set_mtime(path + ".tmp", mtime)
        self.disk.rename(path + ".tmp", path)
        self.disk.sync_directory(self.partition.directory)

    def _rebuild(self, base: int, suffixes: set[str]) -> None:
        """In memory first: an index half rebuilt must not be found by a start after a crash."""
        view = Overlay()
        segment = Segment(HandlePool(view), self.partition.directory, base, self.config, SystemClock(), random.Random(0))
        try:
            rebuild_indexes(segment)
        finally:
            segment.close_handles()
        for suffix in sorted(suffixes):
            path = self._path(base, suffix)
            self.kept.copy(path)
            replace_file(self.disk, path, read_file(view, path))


def remaining(stretches: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """What is left of a file of `size` bytes without the stretches, which are in order."""
    kept, position = [], 0
    for start, end in stretches:
        if start > position:
            kept.append((position, start))
        position = end
    return [*kept, (position, size)] if position < size else kept


def _take_marker(disk: Disk, plan: Plan) -> CleanShutdown | None:
    path = f"{plan.data_directory}/{clean_shutdown.FILE_NAME}"
    marker = read_clean_shutdown(disk, path)
    if remove_file(disk, path):
        disk.sync_directory(plan.data_directory)
    return marker


def _put_marker_back(disk: Disk, plan: Plan, marker: CleanShutdown, changed: list[PartitionPlan]) -> None:
    """The logs are whole now, so the stop counts as clean again; a marker of ours says the new sizes."""
    said = marker.partitions
    if said is not None:
        sizes = {str(log.partition): (log.end_offset, last_segment_size(disk, log.directory)) for log in changed if log.is_named}
        said = {**said, **sizes}
    path = f"{plan.data_directory}/{clean_shutdown.FILE_NAME}"
    write_clean_shutdown(disk, path, CleanShutdown(marker.broker_epoch, said))


def _rewrite_checkpoints(disk: Disk, plan: Plan, kept: Kept) -> None:
    for name, changes in plan.checkpoints.items():
        path = f"{plan.data_directory}/{name}"
        kept.copy(path)
        offsets = {} if changes is None else read_offset_checkpoint(disk, path)
        for partition, offset in (changes or {}).items():
            if offset is None:
                offsets.pop(partition, None)
            else:
                offsets[partition] = offset
        write_offset_checkpoint(disk, path, offsets)
