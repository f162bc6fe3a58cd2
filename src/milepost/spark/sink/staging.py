"""What tasks leave for the commit: the batches of each partition in a file, beside the data directory.

    .NAME.staging/
      JOB/                     one write: a batch query, or one trigger of a stream
        TASK-ATTEMPT/          one attempt at one task
          TOPIC-PARTITION.log  batches, each at offset 0
        commit.json            written when the commit begins: what is appended where (see `commit`)

The driver makes `.NAME.staging` when it plans a write. A task that does not find it is on a machine that does not see the directory.
A task that fails leaves its files, and nobody reads them: the commit takes those that the task named in its message. Whatever is left of a
job that ended is removed with it; of one that was killed, when a later write finds it untouched for a day. A commit that was interrupted
is settled by the next one, whoever's it is; until then commit.json keeps the job.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from milepost.clock import Clock
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.topic_partition import TopicPartition

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
STALE_MS = 24 * 3600 * 1000
COMMIT_FILE = "commit.json"


@dataclass(frozen=True, slots=True)
class StagedFile:
    partition: TopicPartition
    path: str
    size: int
    records: int


class Stage:
    """Where one attempt at a task writes."""

    def __init__(self, disk: Disk, job: str, attempt: str):
        self.disk = disk
        self.directory = f"{job}/{attempt}"
        self._open: dict[TopicPartition, tuple[int, int, int]] = {}
        staging = os.path.dirname(job)
        if not disk.exists(staging):
            raise KafkaStorage(
                f"{staging}: not seen by the executor on {os.uname().nodename}, although the driver made it; "
                "mount the directory at the same place on the driver and on every executor"
            )
        for path in (job, self.directory):
            make_directory(disk, path)

    def append(self, partition: TopicPartition, batch: bytes, records: int) -> None:
        fd, size, count = self._open.get(partition) or (self.disk.open(self._path(partition), CREATE), 0, 0)
        self._open[partition] = (fd, size + len(batch), count + records)
        self.disk.pwrite(fd, batch, size)

    def _path(self, partition: TopicPartition) -> str:
        return f"{self.directory}/{partition}.log"

    def finish(self) -> tuple[StagedFile, ...]:
        """Make it durable; what is there."""
        found = []
        for partition, (fd, size, count) in sorted(self._open.items()):
            self.disk.fsync(fd)
            self.disk.close(fd)
            found.append(StagedFile(partition, self._path(partition), size, count))
        self.disk.sync_directory(self.directory)
        self._open.clear()
        return tuple(found)

    def abandon(self) -> None:
        for fd, _, _ in self._open.values():
            self.disk.close(fd)
        self._open.clear()
        remove_tree(self.disk, self.directory)


def make_staging(disk: Disk, data: str, staging: str) -> None:
    """On the driver, before any task: where they stage what is to go into the data directory."""
    for path in (data, staging):
        parent = os.path.dirname(path)
        if not disk.exists(parent):
            raise KafkaStorage(f"{path}: there is no directory {parent}; make it, or correct the path")
    make_directory(disk, staging)


def make_directory(disk: Disk, path: str) -> None:
    """Several tasks may want it at once."""
    try:
        disk.mkdir(path)
    except FileExistsError:
        return


def remove_tree(disk: Disk, path: str) -> None:
    """A directory of two levels at most, and everything in it.

    A task goes on for a moment when its job has failed, and others may remove too: what is gone is gone, and what is added
    meanwhile is left to the next who removes.
    """
    try:
        names = disk.listdir(path)
    except FileNotFoundError:
        return
    for name in names:
        below = f"{path}/{name}"
        try:
            disk.unlink(below)
        except FileNotFoundError:
            continue
        except (IsADirectoryError, PermissionError):
            remove_tree(disk, below)
    try:
        disk.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise


def abandon(job: str) -> None:
    """Remove what a write staged that failed. Once its commit has begun, it stays: commit.json tells the next one how to undo it."""
    disk = Disk()
    if not disk.exists(f"{job}/{COMMIT_FILE}"):
        remove_tree(disk, job)


def sweep(disk: Disk, staging: str, clock: Clock) -> None:
    """Remove what jobs left behind that were killed long ago. One whose commit had begun is left: it can still be finished."""
    if not disk.exists(staging):
        return
    for name in disk.listdir(staging):
        job = f"{staging}/{name}"
        try:
            age = clock.now_ms() - disk.stat(job).st_mtime * 1000
        except FileNotFoundError:
            # Its own commit was done with it.
            continue
        if age > STALE_MS and not disk.exists(f"{job}/{COMMIT_FILE}"):
            remove_tree(disk, job)
