"""The data directories that this process owns: each entry of `log.dirs`.

Every directory is locked (one named twice is refused by its own lock). The name of an entry says what it is: partitions are loaded,
deleted ones (`-delete`) are removed after the delay, strays and everything else are left alone.

A directory that cannot be opened or listed goes offline; the others go on.
"""

from __future__ import annotations

import logging
from stat import S_ISDIR
from typing import TYPE_CHECKING

from milepost.errors import KafkaStorage
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_directory import parse_directory_name

if TYPE_CHECKING:
    from milepost.log.log_source import StartingLogs

logger = logging.getLogger("milepost.log")

NOT_PARTITIONS = ("remote-log-index-cache", "__cluster_metadata-0")


class OwnDirectories:
    is_ours = True

    def open(self, logs: StartingLogs) -> None:
        for path in logs.config.directories:
            directory = DataDirectory(path, logs.disk, logs.clock)
            try:
                directory.open()
            except KafkaStorage as error:
                logs.note_offline(path, error)
            else:
                logs.directories.append(directory)

    def load(self, logs: StartingLogs) -> None:
        for directory in list(logs.directories):
            try:
                for name in sorted(logs.disk.listdir(directory.path)):
                    self._load_entry(logs, directory, name)
            except OSError as error:
                logs.take_offline(directory, error)

    def _load_entry(self, logs: StartingLogs, directory: DataDirectory, name: str) -> None:
        path = f"{directory.path}/{name}"
        if name in NOT_PARTITIONS or not S_ISDIR(logs.disk.stat(path).st_mode):
            return
        try:
            partition, suffix = parse_directory_name(name)
        except KafkaStorage:
            logger.warning("%s: not the name of a partition directory; left alone", path)
            return
        if suffix == "delete":
            logs.remove_later(path, logs.config.log_segment_delete_delay_ms)
        elif not suffix:
            logs.load_partition(directory, partition, path)
