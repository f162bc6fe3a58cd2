"""A data directory (one entry of `log.dirs`): who owns it, how it was left, and the checkpoints of all its partitions.

    file                                holds
    .lock                               the owner's lock, see directory_lock
    meta.properties                     cluster and broker, see meta_properties
    .kafka_cleanshutdown                the marker of a clean stop, see clean_shutdown
    recovery-point-offset-checkpoint    per partition: the first offset that may not be synced yet
    log-start-offset-checkpoint         log starts above the first segment's base (records were deleted by request)
    replication-offset-checkpoint       the high watermark
    cleaner-offset-checkpoint           the first offset the cleaner has not cleaned
    page_visits-0/ ...                  one directory per partition, see partition_directory

`open` locks first, then removes the marker and syncs that (W-8, W-9 in `tests/crash/test_write_order.py`): from then on a crash is a
crash. A damaged checkpoint is kept aside as `<name>.bad` and counts as empty: that costs work, and for log starts it brings records back
that somebody deleted, but no record is lost. `close` writes the marker last.

`peek` looks without owning: no lock, nothing is removed or written. For readers beside a running broker.

A checkpoint must not speak of a partition that is gone when a new one of the same name begins: the new log would start where the old
one did, or lose what lies below. So `forget` takes a name out of all of them at once, in memory, and `rewriting` out of the files.

Not promised: that a checkpoint names only partitions that exist, or all of them.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping

from milepost.clock import Clock, SystemClock
from milepost.errors import CorruptCheckpoint, KafkaStorage
from milepost.files import Disk, make_directories, remove_file
from milepost.log.directory import clean_shutdown, meta_properties
from milepost.log.directory.checkpoints import keep_aside, read_offset_checkpoint, write_offset_checkpoint
from milepost.log.directory.clean_shutdown import NO_BROKER_EPOCH, CleanShutdown, read_clean_shutdown, write_clean_shutdown
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.log.directory.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.log")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)

Offsets = dict[TopicPartition, int]


class DataDirectory:
    def __init__(self, path: str, disk: Disk, clock: Clock):
        self.path = path
        self.disk = disk
        self.clock = clock
        # By the name of their file.
        self._offsets: dict[str, Offsets] = {name: {} for name in CHECKPOINTS}
        # What is in the files for sure; whoever writes them, one at a time, keeps this.
        self._written: dict[str, Offsets] = {}
        self.publications = 0
        # Partitions that are gone, and the files that may still name them.
        self._gone: set[TopicPartition] = set()
        self._outdated: set[str] = set()
        self._lock: DirectoryLock | None = None
        self._marker: CleanShutdown | None = None

    @classmethod
    def peek(cls, path: str, disk: Disk) -> DataDirectory:
        """The directory as it is, for readers: not locked, not changed. One that is not there looks empty."""
        directory = cls(path, disk, SystemClock())
        directory._marker = read_clean_shutdown(disk, directory._file(clean_shutdown.FILE_NAME))
        directory._load_checkpoints(keep_damaged=False)
        return directory

    def open(self, create: bool = True) -> None:
        """Own the directory until `close`; raises DirectoryLocked, or KafkaStorage when it cannot be used."""
        try:
            if create:
                make_directories(self.disk, posixpath.abspath(self.path))
            self.disk.listdir(self.path)
            self._lock = DirectoryLock(self.path, self.disk)
        except OSError as error:
            raise KafkaStorage(f"{self.path}: the data directory cannot be used: {error.strerror}") from error
        try:
            self._take_marker()
            self._load_checkpoints(keep_damaged=True)
        except BaseException:
            self._unlock()
            raise

    def _take_marker(self) -> None:
        path = self._file(clean_shutdown.FILE_NAME)
        self._marker = read_clean_shutdown(self.disk, path)
        if remove_file(self.disk, path):
            self.disk.sync_directory(self.path)

    def _load_checkpoints(self, keep_damaged: bool) -> None:
        self._offsets = {name: self._read(name, keep_damaged) for name in CHECKPOINTS}

    def _read(self, name: str, keep_damaged: bool) -> Offsets:
        path = self._file(name)
        try:
            return read_offset_checkpoint(self.disk, path)
        except CorruptCheckpoint as damage:
            kept = f"; a copy is kept as {keep_aside(self.disk, path)}" if keep_damaged else ""
            logger.warning("%s; the checkpoint counts as empty%s", damage, kept)
            return {}

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    # How it was left.

    @property
    def was_clean(self) -> bool:
        return self._marker is not None

    @property
    def marked(self) -> Mapping[str, tuple[int, int]]:
        """What the marker said about each log: end offset and size of the last segment."""
        return self._marker.partitions or {} if self._marker is not None else {}

    @property
    def broker_epoch(self) -> int:
        """What the marker said about the broker that stopped; -1 without one."""
        return NO_BROKER_EPOCH if self._marker is None else self._marker.broker_epoch

    def marker_agrees(self, tp: TopicPartition, log_end_offset: int | None, last_segment_size: int) -> bool:
        """Whether this log was left clean: there was a marker, and nothing it says about the log is wrong."""
        return self._marker is not None and self._marker.agrees(tp, log_end_offset, last_segment_size)

    # Whose it is.

    def read_meta(self) -> MetaProperties | None:
        return read_meta_properties(self.disk, self._file(meta_properties.FILE_NAME))

    def claim(self, cluster_id: str, node_id: int, version: int = 0) -> None:
        """Write down whose it is, where that is not said yet; refuse what another cluster or broker wrote."""
        path, meta = self._file(meta_properties.FILE_NAME), self.read_meta()
        if meta is not None:
            meta.ensure_same(path, cluster_id, node_id)
        if meta is None or meta.cluster_id is None:
            directory_id = None if meta is None else meta.directory_id
            write_meta_properties(self.disk, path, MetaProperties(version, cluster_id, node_id, directory_id), self.clock)

    # Checkpoints. Each write replaces the whole file, unless it holds just that.

    @property
    def recovery_points(self) -> Offsets:
        return self._offsets[RECOVERY_POINTS]

    @property
    def log_starts(self) -> Offsets:
        return self._offsets[LOG_STARTS]

    @property
    def high_watermarks(self) -> Offsets:
        return self._offsets[HIGH_WATERMARKS]

    @property
    def cleaner_offsets(self) -> Offsets:
        return self._offsets[CLEANER_OFFSETS]

    def write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Both at once."""
        self.publish(name, offsets)()

    def publish(self, name: str, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """These count from now on; what is returned writes them, or what has counted since, on any thread."""
        self.publications += 1
        return self._use(name, offsets)

    def _use(self, name: str, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        self._offsets[name] = {key: offset for key, offset in offsets.items() if key not in self._gone}
        return lambda: self._write(name)

    def names(self, partition: TopicPartition) -> bool:
        """Whether a checkpoint speaks of the partition, or its file still may."""
        return partition in self._gone or any(partition in offsets for offsets in self._offsets.values())

    @property
    def names_the_gone(self) -> bool:
        """Whether a file may speak of partitions that are gone."""
        return bool(self._gone)

    def forget(self, partition: TopicPartition) -> None:
        """The partition is gone, and is named by no checkpoint from now on; by no file once `rewriting` was done."""
        for name, offsets in self._offsets.items():
            if partition in offsets:
                self._gone.add(partition)
                self._outdated.add(name)

    def forget_now(self, partition: TopicPartition) -> None:
        self.forget(partition)
        write, written = self.rewriting()
        write()
        written()

    def rewriting(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """What writes the files without those that are gone, on any thread, and what is to be called on the owner's when it has."""
        gone, outdated = set(self._gone), sorted(self._outdated)
        writes = [self._use(name, self._offsets[name]) for name in outdated]

        def write() -> None:
            for each in writes:
                each()

        def written() -> None:
            self._gone -= gone
            if not self._gone:
                self._outdated.clear()

        return write, written

    def _write(self, name: str) -> None:
        # As they are by now: of writes that wait for the disk together the first does the work.
        content = self._offsets[name]
        if self._written.pop(name, None) != content:
            write_offset_checkpoint(self.disk, self._file(name), content)
        self._written[name] = content

    def close(self, clean: bool, partitions: Mapping[str, tuple[int, int]], broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Let go of the directory. `clean`: every log in `partitions` (end offset, size of the last segment) is synced."""
        if self._lock is None:
            return
        try:
            if clean:
                marker = CleanShutdown(broker_epoch, partitions)
                write_clean_shutdown(self.disk, self._file(clean_shutdown.FILE_NAME), marker)
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            lock.release()
