"""Directories that are only looked at: copies, backups, or directories that another broker is still writing to.

Their logs are loaded as ever, but in memory only (see `files/overlay`): no lock is taken, nothing is created, nothing is removed, and
nothing happens later either: no retention, no cleaning, no checkpoints. The logs refuse appends.

They are shown as they were when they were opened. A running broker may take a file away between two looks at its directory; loading
then begins anew. What it takes away later cannot be read any more: that is an error of storage (56).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.errors import KafkaStorage
from milepost.files import Overlay
from milepost.log.directory.data_directory import DataDirectory
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.log.log import Log
    from milepost.log.log_source import StartingLogs

ATTEMPTS = 5


class AttachedDirectories:
    is_ours = False

    def __init__(self, partitions: Mapping[TopicPartition, str], overlay: Overlay):
        """`partitions`: the directory of each, by its absolute path. `overlay`: the disk of the log manager."""
        self._partitions = partitions
        self._overlay = overlay

    def open(self, logs: StartingLogs) -> None:
        """Read the checkpoints of the data directories around the partitions; a copy may have none."""
        for path in sorted({posixpath.dirname(path) for path in self._partitions.values()}):
            logs.directories.append(DataDirectory.peek(path, self._overlay))

    def load(self, logs: StartingLogs) -> None:
        homes = {directory.path: directory for directory in logs.directories}
        for partition, path in sorted(self._partitions.items()):
            try:
                log = self._load(logs, homes[posixpath.dirname(path)], partition, path)
            except OSError as error:
                raise KafkaStorage(f"{error.filename or path}: {error.strerror or error}") from error
            log.is_read_only = True
            log.update_high_watermark(log.end_offset)

    def _load(self, logs: StartingLogs, directory: DataDirectory, partition: TopicPartition, path: str) -> Log:
        for _ in range(ATTEMPTS - 1):
            try:
                return logs.load_partition(directory, partition, path)
            except FileNotFoundError:
                # It was listed a moment ago: its owner is at work.
                if not self._overlay.exists(path):
                    raise
                self._overlay.forget(path)
        return logs.load_partition(directory, partition, path)
