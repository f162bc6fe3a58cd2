"""The logs of directories that are only looked at: copies, backups, or directories that another broker is still writing to.

What a `LogManager` does at its start happens here too, but in memory only (see `files/overlay`): no lock is taken, nothing is created,
nothing is removed, and nothing happens later either: no retention, no cleaning, no checkpoints. The logs refuse appends.

They are shown as they were when they were opened. A running broker may take a file away between two looks at its directory; loading
then begins anew. What it takes away later cannot be read any more: that is an error of storage (56).
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Iterator, Mapping

from milepost.clock import Clock
from milepost.codec.text import counted
from milepost.config.broker import BrokerConfig
from milepost.errors import KafkaStorage
from milepost.files import Overlay
from milepost.log.cleaning.cleaner_manager import CleanerManager
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.log import Log
from milepost.log.maintenance.log_maintenance import LogMaintenance
from milepost.log.manager import LogManager
from milepost.topic_partition import TopicPartition

ATTEMPTS = 5


class AttachedLogs(LogManager):
    def __init__(
        self,
        config: BrokerConfig,
        partitions: Mapping[TopicPartition, str],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ):
        """`partitions`: the directory of each, by its absolute path."""
        self.overlay = Overlay()
        super().__init__(config, disk=self.overlay, clock=clock, rng=rng)
        self.maintenance = NoMaintenance(self)
        self.cleaner = NoCleaner(self.clock, config)
        self.paths = partitions

    def open_directories(self) -> None:
        """Read the checkpoints of the data directories around the partitions; a copy may have none."""
        for path in sorted({posixpath.dirname(path) for path in self.paths.values()}):
            self.directories.append(DataDirectory.peek(path, self.disk))

    def load_directories(self) -> None:
        homes = {directory.path: directory for directory in self.directories}
        for partition, path in sorted(self.paths.items()):
            try:
                self._load_as_it_is(homes[posixpath.dirname(path)], partition, path)
            except OSError as error:
                raise KafkaStorage(f"{error.filename or path}: {error.strerror or error}") from error

    def _load_as_it_is(self, directory: DataDirectory, partition: TopicPartition, path: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._load_partition(directory, partition, path)
                break
            except FileNotFoundError:
                # It was listed a moment ago: its owner is at work.
                if attempt == ATTEMPTS or not self.disk.exists(path):
                    raise
                self.overlay.forget(path)
        log = self.logs[partition]
        log.is_read_only = True
        log.update_high_watermark(log.end_offset)

    def recoveries(self) -> Iterator[str]:
        """What loading had to do, in memory, to show the logs: a sentence each."""
        for partition, report in self.reports.items():
            if report.read_through:
                total = len(self.logs[partition].segments)
                read = len(report.read_through)
                were = "was" if read == 1 else "were"
                yield f"{partition} was not closed cleanly: {read} of its {counted(total, 'segment')} {were} read through"
            if report.rebuilt:
                yield f"{partition}: indexes that did not fit their log were built anew for {counted(len(report.rebuilt), 'segment')}"
            yield from report.notes

    def checksums(self) -> str:
        """How far the checksums of the batches were looked at: loading does that only where a log was not closed cleanly."""
        total = sum(len(log.segments) for log in self.logs.values())
        checked = sum(len(report.recovered) for report in self.reports.values())
        if not checked:
            return "not checked, the logs were closed cleanly; milepost verify checks them"
        if checked >= total:
            return f"checked in {f'all {total} segments' if total > 1 else 'the only segment'}"
        return f"checked in {checked} of {total} segments; milepost verify checks all"

    def remarks(self) -> Iterator[str]:
        """What whoever reads these logs should know: a sentence each."""
        for partition, log in self.logs.items():
            for hole in (hole for segment in log.segments for hole in segment.log.holes):
                yield (
                    f"{partition}: offsets {hole.first_offset} to {hole.next_offset - 1} are damaged; reading them is an error, "
                    f"{hole.next_offset} is the next that can be read"
                )
            if log.last_stable_offset < log.end_offset:
                yield (
                    f"{partition}: a transaction is open since offset {log.last_stable_offset}; consumers with read_committed "
                    f"stop there, before the end at {log.end_offset}"
                )

    def shutdown(self) -> None:
        for log in self.logs.values():
            log.close()
        self.directories = []


class NoMaintenance(LogMaintenance):
    def pieces(self) -> Iterator[None]:
        """Nothing is ever due."""
        return iter(())


class NoCleaner(CleanerManager):
    def _is_free(self, partition: TopicPartition, log: Log) -> bool:
        """Every log is somebody else's."""
        return False
