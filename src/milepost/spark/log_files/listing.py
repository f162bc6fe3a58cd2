"""What lies below the paths of a query: partitions, their segments, and everything that is neither.

The directories are listed here and not by Spark, which leaves out every name that begins with `_` or `.`: `__consumer_offsets-0`
would vanish without a word. A name counts when it is on the list:

    TOPIC-PARTITION/                        a partition directory; `-delete`, `-stray` and `-future` ones are skipped
    twenty digits and .log                  a segment; it must be a regular file, and is not opened here
    its .index, .timeindex, .txnindex, .snapshot, and the small files beside them

Everything else is skipped and kept with its reason, so that nothing is left out silently. A symbolic link is skipped unless
links are followed; then it counts as what it leads to, if that lies below the path named by the user. FIFOs, sockets and devices are
never opened.

The same partition in several data directories is several replicas of it: the one with the highest leader epoch is read, then the one
with the most bytes behind the same last segment; the others are skipped.
"""

from __future__ import annotations

import contextlib
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from milepost.errors import CorruptCheckpoint, KafkaStorage
from milepost.files import Disk
from milepost.inspect.paths import MAX_OFFSET, FileKind, is_log_name, read_name
from milepost.log import epochs
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.epochs import LeaderEpochCache
from milepost.segment import names
from milepost.spark.log_files.memory import Remembered
from milepost.topic_partition import TopicPartition

HARMLESS = (
    FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT, FileKind.LEADER_EPOCHS,
    FileKind.PARTITION_METADATA,
)  # fmt: skip
OF_A_DATA_DIRECTORY = (FileKind.CHECKPOINT, FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN, FileKind.LOCK)

EXPECTED = "name a data directory, or a partition directory such as page_visits-0"


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file as it was when it was listed: its identity, and how many bytes of it may be read."""

    base_offset: int
    path: str
    size: int
    inode: int
    device: int
    mtime_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Skipped:
    path: str
    reason: str
    size: int = 0


@dataclass(slots=True)
class PartitionFiles:
    partition: TopicPartition
    directory: str
    data_directory: str
    segments: list[SegmentFile] = field(default_factory=list)
    """By rising base offset."""
    snapshots: list[int] = field(default_factory=list)
    """Offsets of the producer snapshots, rising."""

    def next_base(self, slot: int) -> int:
        """The base offset of the segment behind, which bounds what this one may hold."""
        return self.segments[slot + 1].base_offset if slot + 1 < len(self.segments) else MAX_OFFSET

    def sibling(self, segment: SegmentFile, suffix: str) -> str:
        return segment.path[: -len(names.LOG)] + suffix


@dataclass(slots=True)
class Listing:
    partitions: dict[TopicPartition, PartitionFiles] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


class ListingMemory:
    """What the listings of one stream have in common; only for the same paths and topics."""

    def __init__(self, disk: Disk):
        self.roots: Remembered[list[tuple[TopicPartition, str]]] = Remembered(disk)
        self.directories: Remembered[PartitionFiles] = Remembered(disk)


def list_partitions(
    disk: Disk,
    paths: tuple[str, ...],
    follow_symlinks: bool = False,
    wants: Callable[[str], bool] = lambda topic: True,
    memory: ListingMemory | None = None,
) -> Listing:
    """Everything below the paths, of the topics that are wanted. OSError becomes KafkaStorage: what cannot be read is not left out.

    With a memory, what was skipped is named by the first listing only. Links that are followed are looked at each time."""
    lister = _Lister(disk, follow_symlinks, wants, None if follow_symlinks else memory)
    for path in paths:
        try:
            lister.add(path.rstrip("/") or "/")
        except OSError as error:
            raise KafkaStorage(f"{error.filename or path}: {error.strerror or error}") from error
    return lister.listing()


def is_data_directory(disk: Disk, path: str) -> bool:
    """Whether a broker has been here, if there is no partition (yet)."""
    return any(read_name(name).kind in OF_A_DATA_DIRECTORY for name in disk.listdir(path))


class _Lister:
    def __init__(self, disk: Disk, follow_symlinks: bool, wants: Callable[[str], bool], memory: ListingMemory | None):
        self.disk = disk
        self.memory = memory
        self.follow_symlinks = follow_symlinks
        self.wants = wants
        self.replicas: dict[TopicPartition, list[PartitionFiles]] = {}
        self.skipped: list[Skipped] = []

    def add(self, path: str) -> None:
        """A path that a person named; a link counts as what it leads to."""
        try:
            root = self.disk.resolve(path)
        except FileNotFoundError as error:
            raise KafkaStorage(f"{path}: {error.strerror}; {EXPECTED}") from error
        if not stat.S_ISDIR(self.disk.stat(root).st_mode):
            raise KafkaStorage(f"{path}: not a directory; {EXPECTED}")
        found = (
            self._partitions_in(root) if self.memory is None else self.memory.roots.get(root, lambda: self._partitions_in(root))
        )
        for partition, directory in found:
            # A partition that is deleted is none.
            with contextlib.suppress(FileNotFoundError):
                self._add_partition(partition, directory, root)

    def _partitions_in(self, root: str) -> list[tuple[TopicPartition, str]]:
        listed = self.disk.listdir(root)
        partition = _live_partition(posixpath.basename(root))
        if partition is not None and (any(is_log_name(name) for name in listed) or not self._holds_partitions(root, listed)):
            return [(partition, root)]
        found = []
        for name in sorted(listed):
            # A name that is gone by now, such as the temporary file of a checkpoint, was none of ours.
            with contextlib.suppress(FileNotFoundError):
                entry = self._entry(root, name)
                if entry is not None:
                    found.append(entry)
        return found

    def _holds_partitions(self, root: str, listed: list[str]) -> bool:
        named = (f"{root}/{name}" for name in listed if _live_partition(name))
        return any(self.disk.exists(path) and stat.S_ISDIR(self.disk.stat(path).st_mode) for path in named)

    def _entry(self, root: str, name: str) -> tuple[TopicPartition, str] | None:
        path = f"{root}/{name}"
        mode = self.disk.stat(path).st_mode
        if stat.S_ISLNK(mode):
            target = self._followed(path, root)
            if target is None:
                return None
            path, mode = target, self.disk.stat(target).st_mode
        if not stat.S_ISDIR(mode):
            if read_name(name).kind not in OF_A_DATA_DIRECTORY:
                self._skip(path, f"not a partition directory but {_kind(mode)}")
            return None
        try:
            partition, suffix = parse_directory_name(name)
        except KafkaStorage:
            self._skip(path, "not a partition directory: its name is not TOPIC-PARTITION")
            return None
        if suffix:
            self._skip(path, f"a directory marked -{suffix}")
            return None
        return (partition, path) if self.wants(partition.topic) else None

    def _add_partition(self, partition: TopicPartition, directory: str, root: str) -> None:
        if self.memory is None:
            found = self._files_in(partition, directory, root)
        else:
            found = self.memory.directories.get(directory, lambda: self._files_in(partition, directory, root))
            if not self._see_growth(found):
                found = self._files_in(partition, directory, root)
        self.replicas.setdefault(partition, []).append(found)

    def _see_growth(self, found: PartitionFiles) -> bool:
        """Of the last segment, which alone grows in place; whether it is still there."""
        if not found.segments:
            return True
        last = found.segments[-1]
        try:
            status = self.disk.stat(last.path)
        except FileNotFoundError:
            return False
        if (status.st_size, status.st_mtime_ns, status.st_ino) != (last.size, last.mtime_ns, last.inode):
            found.segments[-1] = SegmentFile(
                last.base_offset, last.path, status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns
            )
        return True

    def _files_in(self, partition: TopicPartition, directory: str, root: str) -> PartitionFiles:
        found = PartitionFiles(partition, directory, posixpath.dirname(directory))
        for name in sorted(self.disk.listdir(directory)):
            read = read_name(name)
            if is_log_name(name):
                self._add_segment(found, name, root)
            elif read.kind is FileKind.SNAPSHOT and not read.left_over and read.base_offset is not None:
                found.snapshots.append(read.base_offset)
            elif read.left_over or read.kind not in HARMLESS:
                what = f"on its way in or out ({read.left_over})" if read.left_over else f"no file of a log ({read.kind.value})"
                self._skip(f"{directory}/{name}", what)
        found.segments.sort(key=lambda segment: segment.base_offset)
        found.snapshots.sort()
        return found

    def _add_segment(self, found: PartitionFiles, name: str, root: str) -> None:
        path = f"{found.directory}/{name}"
        try:
            status = self.disk.stat(path)
            if stat.S_ISLNK(status.st_mode):
                target = self._followed(path, root)
                if target is None:
                    return
                path, status = target, self.disk.stat(target)
        except FileNotFoundError:
            return  # retention was quicker; if that loses offsets that are wanted, the bounds say so
        if not stat.S_ISREG(status.st_mode):
            self._skip(path, f"named like a segment but {_kind(status.st_mode)}")
            return
        base_offset = int(name[: -len(names.LOG)])
        found.segments.append(SegmentFile(base_offset, path, status.st_size, status.st_ino, status.st_dev, status.st_mtime_ns))

    def _followed(self, path: str, root: str) -> str | None:
        if not self.follow_symlinks:
            self._skip(path, "a symbolic link; followSymlinks=true follows it")
            return None
        try:
            target = self.disk.resolve(path)
        except OSError as error:
            self._skip(path, f"a symbolic link that leads nowhere ({error.strerror})")
            return None
        if not target.startswith(root.rstrip("/") + "/"):
            self._skip(path, f"a symbolic link that leads out of {root}")
            return None
        return target

    def _skip(self, path: str, reason: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = self.disk.stat(path)
            self.skipped.append(Skipped(path, reason, status.st_size if stat.S_ISREG(status.st_mode) else 0))

    def listing(self) -> Listing:
        partitions = {}
        for partition, replicas in sorted(self.replicas.items()):
            chosen = replicas[0] if len(replicas) == 1 else max(replicas, key=self._rank)
            partitions[partition] = chosen
            for other in replicas:
                if other is not chosen and other.directory != chosen.directory:
                    self._skip(other.directory, f"another replica of {partition}; {chosen.directory} is read")
        return Listing(partitions, self.skipped)

    def _rank(self, replica: PartitionFiles) -> tuple[int, int, int]:
        try:
            known = LeaderEpochCache.read(f"{replica.directory}/{epochs.FILE_NAME}", self.disk)
        except CorruptCheckpoint:
            known = []
        last = replica.segments[-1] if replica.segments else None
        return known[-1].epoch if known else -1, last.base_offset if last else -1, last.size if last else -1


def _live_partition(name: str) -> TopicPartition | None:
    try:
        partition, suffix = parse_directory_name(name)
    except KafkaStorage:
        return None
    return None if suffix else partition


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), f"a file of mode {stat.filemode(mode)}")
