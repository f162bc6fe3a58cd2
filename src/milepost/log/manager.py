"""All logs of a process: several data directories, one owner.

    startup       open every directory and load every partition, as their source has it: `own_directories`, or
                  `attached_directories` where they are somebody else's, and nothing in them changes
    while it runs create, delete and look up logs; what they need now and then is `maintenance`, and `cleaner`
    shutdown      close every log, write the checkpoints, and last of all the marker of a clean stop

A directory that fails goes offline with all its logs; the others go on. When none is left there is nothing to manage
and startup raises.

Partitions are loaded one after the other: `num.recovery.threads.per.data.dir` changes nothing here. Whoever owns the
manager runs the pieces of `maintenance` between other things; nothing here starts a thread or looks at a clock that was not given to it.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from milepost.clock import Clock, SystemClock
from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument, KafkaStorage, MilepostError
from milepost.files import Disk, HandlePool
from milepost.log.cleaning.cleaner_manager import CleanerManager
from milepost.log.directory import partition_metadata
from milepost.log.directory.data_directory import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    DataDirectory,
)
from milepost.log.directory.partition_directory import delete_directory_name, stray_directory_name
from milepost.log.load_report import LoadReport
from milepost.log.loading import LogLoader
from milepost.log.log import Log
from milepost.log.log_source import LogSource
from milepost.log.maintenance.log_maintenance import LogMaintenance
from milepost.log.maintenance.scheduler import Scheduler, WorkQueue
from milepost.log.open import last_segment_size
from milepost.log.own_directories import OwnDirectories
from milepost.log.owner import OwnedLog, Owner
from milepost.topic_partition import TopicPartition, validate_topic_name

logger = logging.getLogger("milepost.log")


class LogManager(Owner):
    def __init__(
        self,
        config: BrokerConfig,
        topics: Mapping[str, Mapping[str, object]] | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        scheduler: Scheduler | None = None,
        source: LogSource | None = None,
    ):
        self.config = config
        self.source = source or OwnDirectories()
        self.topics = {topic: LogConfig.parse(given, config) for topic, given in (topics or {}).items()}
        self.disk = disk or Disk()
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.scheduler = scheduler or Scheduler(self.clock)
        self.pool = HandlePool(self.disk)
        self.logs: dict[TopicPartition, Log] = {}
        self._of_topic: dict[str, dict[TopicPartition, Log]] = {}
        # What the start had to do, where that was anything.
        self.reports: dict[TopicPartition, LoadReport] = {}
        self.directories: list[DataDirectory] = []
        self.offline: dict[str, str] = {}
        self.on_offline: Callable[[str], object] = lambda path: None
        self._home: dict[TopicPartition, DataDirectory] = {}
        # Data directories with new names that are about to be synced.
        self._unsynced: set[str] = set()
        self.cleaner = CleanerManager(self.clock, config)
        self.maintenance = LogMaintenance(self)

    # Starting.

    def startup(self) -> None:
        """Lock and load every directory. A lock held by another process, or a partition found twice, ends the start."""
        self.open_directories()
        self.load_directories()

    def open_directories(self) -> None:
        """Read the checkpoints of every directory, locked if it is ours."""
        with self._all_or_nothing():
            self.source.open(self)
            self._ensure_one_online()

    def load_directories(self) -> None:
        """Load every partition, each with the settings of its topic as they are known now."""
        with self._all_or_nothing():
            self.source.load(self)
            self._ensure_one_online()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Let go of everything that was opened, without a word about it on disk: the start went wrong."""
        for log in self.logs.values():
            log.close_handles()
        for directory in self.directories:
            directory.close(False, {})

    def _ensure_one_online(self) -> None:
        if not self.directories:
            raise KafkaStorage(f"none of the data directories can be used: {'; '.join(self.offline.values())}")

    def load_partition(self, directory: DataDirectory, partition: TopicPartition, path: str) -> Log:
        if partition in self.logs:
            raise KafkaStorage(
                f"{partition} is in two places, {self.logs[partition].directory} and {path}; move one of them away"
            )
        self._home[partition] = directory
        loader = self._loader(directory, partition, path)
        self.logs[partition] = log = loader.load()
        self._of_topic.setdefault(partition.topic, {})[partition] = log
        if loader.report.recovered or loader.report.notes:
            self.reports[partition] = loader.report
        log.update_high_watermark(directory.high_watermarks.get(partition, log.start_offset))
        return log

    def _loader(self, directory: DataDirectory, partition: TopicPartition, path: str) -> LogLoader:
        return LogLoader(
            path,
            partition,
            self.config_of(partition.topic),
            self.pool,
            self.clock,
            self.rng,
            is_clean=directory.marker_agrees(partition, None, last_segment_size(self.disk, path)),
            recovery_point=directory.recovery_points.get(partition, 0),
            start_offset=directory.log_starts.get(partition, 0),
            producer_expiration_ms=self.config.producer_id_expiration_ms,
            scheduler=self.scheduler,
            owner=self,
        )

    def config_of(self, topic: str) -> LogConfig:
        return self.topics.get(topic) or LogConfig.parse({}, self.config)

    # Logs.

    def get(self, partition: TopicPartition) -> Log | None:
        log = self.logs.get(partition)
        if log is not None and log.is_failed:
            raise KafkaStorage(f"{log.directory}: the directory is offline after an error of the disk")
        return log

    def create(self, partition: TopicPartition, given: Mapping[str, object] | None = None, topic_id: str | None = None) -> Log:
        """The log of a partition; a new one goes to the directory that holds the fewest, or the next if that one fails."""
        existing = self.get(partition)
        if existing is not None:
            return existing
        validate_topic_name(partition.topic)
        if given is not None:
            self.topics[partition.topic] = LogConfig.parse(given, self.config)
        failure: Exception = KafkaStorage("no data directory is online")
        for directory in sorted(self.directories, key=self._load_of):
            path = f"{directory.path}/{partition}"
            try:
                return self._make(directory, partition, path, topic_id)
            except OSError as error:
                failure = error
                self.take_offline(directory, error)
        raise KafkaStorage(f"{partition}: no data directory could take it: {failure}")

    def _load_of(self, directory: DataDirectory) -> int:
        # Not counted for a single directory: it would be for each of ten thousand partitions.
        return sum(home is directory for home in self._home.values()) if len(self.directories) > 1 else 0

    def _sync_names(self, directory: DataDirectory) -> None:
        """Make the names of new partitions durable. Those that come while a sync waits for its turn share it."""
        if directory.path in self._unsynced:
            return
        self._unsynced.add(directory.path)

        def sync() -> None:
            self._unsynced.discard(directory.path)
            self.disk.sync_directory(directory.path)

        self.scheduler.in_background(sync, lambda _: None, partial(self.take_offline, directory))

    def _make(self, directory: DataDirectory, partition: TopicPartition, path: str, topic_id: str | None) -> Log:
        """A new log. Its names are durable when this returns, or soon: what it is asked to keep before that is in no file yet."""
        metadata = f"{path}/{partition_metadata.FILE_NAME}"
        self.maintenance.ensure_unnamed(directory, partition)
        self.disk.mkdir(path)
        if topic_id is not None:
            partition_metadata.ensure_topic_id(self.disk, metadata, topic_id, sync=not self.scheduler.is_background)
        log = self.load_partition(directory, partition, path)
        if self.scheduler.is_background:
            log.sync_in_background([metadata])
        self._sync_names(directory)
        return log

    def delete(self, partition: TopicPartition) -> None:
        """Take a log out of service: its directory is renamed now and removed after the delay.

        KafkaStorage when its directory is offline, or goes offline because of this: then the log is where it was.
        """
        log, doomed = self._take_away(partition, delete_directory_name)
        self.remove_later(doomed, log.config.file_delete_delay_ms)

    def set_aside(self, partition: TopicPartition) -> str:
        """Take a log out of service and keep it: the directory that has it now. No start loads it, and nobody removes it but its owner."""
        return self._take_away(partition, stray_directory_name)[1]

    def _take_away(self, partition: TopicPartition, new_name: Callable[[TopicPartition, str], str]) -> tuple[Log, str]:
        log = self.get(partition)
        if log is None:
            raise InvalidArgument(f"{partition}: there is no such log")
        log.begin_taking_away()
        self.cleaner.forget(partition)
        directory = self._home[partition]
        renamed = f"{directory.path}/{new_name(partition, uuid.UUID(int=self.rng.getrandbits(128)).hex)}"
        try:
            self.disk.rename(log.directory, renamed)
            self.disk.sync_directory(directory.path)
        except OSError as error:
            # The log is still ours, and refuses everything: whoever asks for it is told why.
            raise log.fail(error) from error
        del self.logs[partition], self._home[partition], self._of_topic[partition.topic][partition]
        if not self._of_topic[partition.topic]:
            del self._of_topic[partition.topic]
        log.taken_away(renamed)
        self.maintenance.forget(directory, partition)
        return log, renamed

    def remove_later(self, path: str, delay_ms: int) -> None:
        def remove() -> None:
            for name in self.disk.listdir(path):
                self.disk.unlink(f"{path}/{name}")
            self.disk.rmdir(path)

        def failed(error: OSError) -> None:
            logger.warning("%s: cannot be removed: %s; the next start tries again", path, error.strerror)

        self.scheduler.later(delay_ms, lambda: self.scheduler.in_background(remove, lambda _: None, failed, WorkQueue.BULK))

    # Work around the logs.

    def clean(self) -> Log | None:
        """Clean the filthiest compacted log, if one is dirty enough."""
        return self.cleaner.clean_filthiest(self.logs, self.cleaner_offset, self.write_cleaner_offset)

    def cleaner_offset(self, partition: TopicPartition) -> int | None:
        home = self._home.get(partition)
        return None if home is None else home.cleaner_offsets.get(partition)

    def write_cleaner_offset(self, partition: TopicPartition, offset: int) -> None:
        directory = self._home.get(partition)
        if directory is not None:
            self.maintenance.write(directory, CLEANER_OFFSETS, {**directory.cleaner_offsets, partition: offset})

    def online(self) -> Iterator[Log]:
        """Each is asked for when its turn comes: one that was deleted or failed since the first is left out."""
        return (log for log in list(self.logs.values()) if self.holds(log) and not log.is_failed)

    def holds(self, log: Log) -> bool:
        """Whether it is in service here; there may be another log of the same name."""
        return self.logs.get(log.partition) is log

    def logs_of(self, topic: str) -> list[Log]:
        return list(self._of_topic.get(topic, {}).values())

    def logs_in(self, directory: DataDirectory) -> Iterator[Log]:
        return (log for log in self.online() if self._home.get(log.partition) is directory)

    # What logs report to their owner.

    def publish_start(self, log: OwnedLog, start_offset: int) -> Callable[[], None]:
        directory = self._home[log.partition]
        return directory.publish(LOG_STARTS, {**directory.log_starts, log.partition: start_offset})

    def publish_recovery_point(self, log: OwnedLog, offset: int) -> None:
        directory = self._home[log.partition]
        self.scheduler.wait()  # else an older checkpoint that is on its way would follow this one
        directory.write(RECOVERY_POINTS, {**directory.recovery_points, log.partition: offset})

    def publish_clean_end(self, log: OwnedLog, offset: int) -> None:
        directory = self._home[log.partition]
        if directory.cleaner_offsets.get(log.partition, offset) > offset:
            self.scheduler.wait()
            directory.write(CLEANER_OFFSETS, {**directory.cleaner_offsets, log.partition: offset})

    @contextmanager
    def without_cleaning(self, log: OwnedLog) -> Iterator[None]:
        self.cleaner.pause(log.partition)
        try:
            yield
        finally:
            self.cleaner.resume(log.partition)

    def failed(self, log: OwnedLog, error: OSError) -> None:
        directory = self._home.get(log.partition)
        if directory in self.directories:
            self.take_offline(directory, error)

    def take_offline(self, directory: DataDirectory, error: OSError) -> None:
        """Once, however many of its files, logs and side threads report an error."""
        if directory not in self.directories:
            return
        self.directories.remove(directory)
        self.note_offline(directory.path, error)
        for log in self.online():
            if self._home[log.partition] is directory:
                log.is_failed = True
        with suppress(OSError):  # the lock ends with the process, if not now
            directory.close(False, {})
        self.on_offline(directory.path)

    def note_offline(self, path: str, error: Exception) -> None:
        reason = str(error) if isinstance(error, MilepostError) else f"{path}: {error}"
        self.offline[path] = reason
        logger.error("data directory offline: %s", reason)

    # Stopping.

    def shutdown(self) -> None:
        """Close all logs; a directory of ours whose logs all closed without an error gets the marker of a clean stop."""
        logs = [log for log in self.online() if not log.is_closed]
        works = [log.begin_close() for log in logs]
        closed = {
            log.partition for log, failure in zip(logs, self.scheduler.all(works), strict=True) if self._is_closed(log, failure)
        }
        if self.source.is_ours:
            self._leave_directories(closed)
        self.directories = []

    def _leave_directories(self, closed: Collection[TopicPartition]) -> None:
        for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            for _ in self.maintenance.checkpoint(name):
                pass
        for directory in self.directories:
            logs = list(self.logs_in(directory))
            marked = {str(log.partition): (log.end_offset, log.segments.active.size) for log in logs}
            try:
                directory.close(all(log.partition in closed for log in logs), marked)
            except OSError as error:
                logger.error(
                    "%s: no marker of a clean stop: %s; the next start recovers its logs", directory.path, error.strerror
                )

    def _is_closed(self, log: Log, failure: OSError | None) -> bool:
        try:
            log.end_close(failure)
        except MilepostError as error:
            logger.error("%s", error)
            return False
        return True
