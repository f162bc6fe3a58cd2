"""Opening the log of one partition directory, on its own: `milepost.open_log`.

`mode="r"` looks only. It takes no lock and writes nothing: recovery happens in memory, so it is safe beside a running
broker and on a copied, torn or foreign directory. It shows the log as it was when it was opened.

`mode="a"` owns the data directory (the parent of the partition directory) while it is open: it takes its `.lock`,
removes the marker of a clean stop, keeps its checkpoints, and writes the marker back at `close` if every other
partition there was left clean too.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Mapping

from milepost.clock import Clock, SystemClock
from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk, HandlePool, Overlay
from milepost.log.directory.data_directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, DataDirectory
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.loading import LogLoader
from milepost.log.log import Log
from milepost.log.owner import OwnedLog, Owner
from milepost.segment import names
from milepost.topic_partition import TopicPartition


def open_log(
    path: str,
    mode: str = "r",
    config: Mapping[str, object] | LogConfig | None = None,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    rng: random.Random | None = None,
) -> Log:
    """The log in the partition directory `path` (`.../TOPIC-PARTITION`); close it, or use it in a `with` statement."""
    if mode not in ("r", "a"):
        raise InvalidArgument(f"mode {mode!r}: 'r' opens a log for reading, 'a' for appending")
    directory = posixpath.normpath(str(path))
    settings = config if isinstance(config, LogConfig) else LogConfig.parse(config)
    clock = clock or SystemClock()
    rng = rng or random.Random()
    try:
        if mode == "r":
            return _open_to_read(directory, settings, clock, disk, rng)
        return _open_to_append(directory, settings, clock, disk or Disk(), rng)
    except OSError as error:
        raise KafkaStorage(f"{error.filename or directory}: {error.strerror or error}") from error


def _open_to_read(directory: str, config: LogConfig, clock: Clock, disk: Disk | None, rng: random.Random) -> Log:
    disk = disk or Overlay()
    if not disk.exists(directory):
        raise KafkaStorage(f"{directory}: no such directory; name a partition directory such as page_visits-0")
    parent, partition = posixpath.dirname(directory) or ".", _partition_of(directory)
    owner = DataDirectory.peek(parent, disk)
    loader = _loader(directory, partition, config, disk, clock, rng, owner)
    log = loader.load()
    log.is_read_only = True
    log.update_high_watermark(log.end_offset)
    return log


def _partition_of(directory: str) -> TopicPartition:
    """Copies are opened under any name: only a broker needs to know which partition it is."""
    try:
        return parse_directory_name(posixpath.basename(directory))[0]
    except KafkaStorage:
        return TopicPartition(posixpath.basename(directory), 0)


def _open_to_append(directory: str, config: LogConfig, clock: Clock, disk: Disk, rng: random.Random) -> Log:
    partition, _ = parse_directory_name(posixpath.basename(directory))
    data_directory = DataDirectory(posixpath.dirname(directory) or ".", disk, clock)
    data_directory.open()
    try:
        if not disk.exists(directory):
            if data_directory.names(partition):
                # What checkpoints say is of an earlier log of this name.
                data_directory.forget_now(partition)
            disk.mkdir(directory)
            disk.sync_directory(data_directory.path)
        loader = _loader(directory, partition, config, disk, clock, rng, data_directory)
        loader.owner = LoneOwner(data_directory)
        log = loader.load()
    except BaseException:
        data_directory.close(False, {})
        raise
    log.update_high_watermark(log.end_offset)
    return log


def _loader(
    directory: str,
    partition: TopicPartition,
    config: LogConfig,
    disk: Disk,
    clock: Clock,
    rng: random.Random,
    owner: DataDirectory,
) -> LogLoader:
    return LogLoader(
        directory,
        partition,
        config,
        HandlePool(disk),
        clock,
        rng,
        is_clean=owner.marker_agrees(partition, None, last_segment_size(disk, directory)),
        recovery_point=owner.recovery_points.get(partition, 0),
        start_offset=owner.log_starts.get(partition, 0),
    )


def last_segment_size(disk: Disk, directory: str) -> int:
    """Size of the newest `.log` file: what the marker of a clean stop is compared with."""
    logs = [name for name in disk.listdir(directory) if names.is_segment_file(name, names.LOG)]
    return disk.stat(f"{directory}/{max(logs)}").st_size if logs else 0


class LoneOwner(Owner):
    """The data directory of a log that is open on its own: the other partitions there are left as they are."""

    def __init__(self, directory: DataDirectory):
        self.directory = directory

    def publish_start(self, log: OwnedLog, start_offset: int) -> Callable[[], None]:
        return self.directory.publish(LOG_STARTS, {**self.directory.log_starts, log.partition: start_offset})

    def publish_recovery_point(self, log: OwnedLog, offset: int) -> None:
        self.directory.write(RECOVERY_POINTS, {**self.directory.recovery_points, log.partition: offset})

    def publish_clean_end(self, log: OwnedLog, offset: int) -> None:
        if self.directory.cleaner_offsets.get(log.partition, offset) > offset:
            self.directory.write(CLEANER_OFFSETS, {**self.directory.cleaner_offsets, log.partition: offset})

    def closed(self, log: OwnedLog) -> None:
        directory = self.directory
        if log.is_failed:
            directory.close(False, {})
            return
        starts = {**directory.log_starts, log.partition: log.start_offset}
        if log.start_offset <= log.segments.first.base_offset:
            del starts[log.partition]
        try:
            directory.write(RECOVERY_POINTS, {**directory.recovery_points, log.partition: log.recovery_point})
            directory.write(LOG_STARTS, starts)
            directory.write(HIGH_WATERMARKS, {**directory.high_watermarks, log.partition: log.high_watermark})
            directory.close(
                self._was_clean(log), {**directory.marked, str(log.partition): (log.end_offset, log.segments.active.size)}
            )
        except OSError as error:
            directory.close(False, {})
            raise KafkaStorage(
                f"{error.filename or directory.path}: {error.strerror or error}; the log is whole, its next start reads it as after a crash"
            ) from error

    def _was_clean(self, log: OwnedLog) -> bool:
        if self.directory.was_clean:
            return True
        names = self.directory.disk.listdir(self.directory.path)
        own = posixpath.basename(log.directory)
        return not any(name != own and self._is_partition(name) for name in names)

    def _is_partition(self, name: str) -> bool:
        try:
            parse_directory_name(name)
        except KafkaStorage:
            return False
        return True
