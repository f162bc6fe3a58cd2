"""What a path is: a file of a log, a partition directory, or a data directory full of them.

    a file                   told by its name, see `KINDS`; `.deleted`, `.cleaned` or `.swap` behind it changes nothing about its content
    a partition directory    holds segments (`00000000000000000000.log`), or is named TOPIC-PARTITION and holds no directories
    a data directory         holds partition directories, or checkpoint files

Nothing here follows a symbolic link that it finds inside a directory, and nothing waits for a FIFO or a device: only regular
files are read. A link that a person names is followed if it leads to a directory.

Not promised: that a file holds what its name says. Whoever reads it finds out.
"""

from __future__ import annotations

import enum
import os
import posixpath
import stat
from dataclasses import dataclass

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log import epochs
from milepost.log.directory import clean_shutdown, directory_lock, meta_properties, partition_metadata
from milepost.log.directory import data_directory as directory
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.segment import names


class FileKind(enum.Enum):
    LOG = "record batches"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TXN_INDEX = "transaction index"
    SNAPSHOT = "producer snapshot"
    LEADER_EPOCHS = "leader epochs"
    PARTITION_METADATA = "topic id"
    CHECKPOINT = "offset checkpoint"
    META_PROPERTIES = "cluster and broker"
    CLEAN_SHUTDOWN = "marker of a clean stop"
    LOCK = "lock"
    KEPT = "bytes that recovery or repair kept"
    TEMPORARY = "unfinished replacement of a small file"
    KRAFT = "KRaft snapshot"
    UNKNOWN = "unknown"


KINDS = {
    names.LOG: FileKind.LOG,
    names.INDEX: FileKind.OFFSET_INDEX,
    names.TIME_INDEX: FileKind.TIME_INDEX,
    names.TXN_INDEX: FileKind.TXN_INDEX,
    names.SNAPSHOT: FileKind.SNAPSHOT,
    ".tmp": FileKind.TEMPORARY,
    ".bad": FileKind.KEPT,
    ".checkpoint": FileKind.KRAFT,
}
NAMED = {
    epochs.FILE_NAME: FileKind.LEADER_EPOCHS,
    partition_metadata.FILE_NAME: FileKind.PARTITION_METADATA,
    meta_properties.FILE_NAME: FileKind.META_PROPERTIES,
    clean_shutdown.FILE_NAME: FileKind.CLEAN_SHUTDOWN,
    directory_lock.FILE_NAME: FileKind.LOCK,
    directory.RECOVERY_POINTS: FileKind.CHECKPOINT,
    directory.LOG_STARTS: FileKind.CHECKPOINT,
    directory.HIGH_WATERMARKS: FileKind.CHECKPOINT,
    directory.CLEANER_OFFSETS: FileKind.CHECKPOINT,
}
SEGMENT_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
LEFT_OVER = (names.DELETED, names.CLEANED, names.SWAP)
KEPT_MARKS = (".log.hole-", ".log.cut-", ".log.gap-")
IGNORED_DIRECTORIES = ("remote-log-index-cache",)


# Twenty digits can say more than the 64 bits of an offset; such a name is nobody's segment.
MAX_OFFSET = 2**63 - 1


class PathKind(enum.Enum):
    FILE = "file"
    PARTITION = "partition directory"
    DATA = "data directory"


@dataclass(frozen=True, slots=True)
class FileName:
    """A file name, read: `left_over` is the suffix of a file on its way in or out, `base_offset` None where there is no number."""

    name: str
    kind: FileKind
    base_offset: int | None
    left_over: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    path: str
    kind: PathKind


def read_name(name: str) -> FileName:
    base_offset = names.offset_of(name)
    if base_offset is not None and base_offset > MAX_OFFSET:
        return FileName(name, FileKind.UNKNOWN, None)
    if any(mark in name for mark in KEPT_MARKS):
        return FileName(name, FileKind.KEPT, base_offset)
    left_over = next((suffix for suffix in LEFT_OVER if name.endswith(suffix)), "")
    stem = name[: len(name) - len(left_over)]
    kind = NAMED.get(stem) or KINDS.get(posixpath.splitext(stem)[1], FileKind.UNKNOWN)
    return FileName(name, kind, base_offset, left_over)


def is_regular(disk: Disk, path: str) -> bool:
    return stat.S_ISREG(disk.stat(path).st_mode)


def is_directory(disk: Disk, path: str) -> bool:
    """Of the name itself: a link to a directory is none."""
    return stat.S_ISDIR(disk.stat(path).st_mode)


def ensure_regular(disk: Disk, path: str) -> int:
    """The size of a regular file; KafkaStorage for anything else that carries the name."""
    status = disk.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise KafkaStorage(f"{path}: {_other_kind(status.st_mode)}, where a regular file is expected; it was not opened")
    return status.st_size


def open_regular(disk: Disk, path: str) -> int:
    """A descriptor to read from. The name is looked at again after opening would follow it: a link is refused, a FIFO never waits."""
    ensure_regular(disk, path)
    return disk.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def look_at(disk: Disk, path: str) -> Target:
    """What a person named; KafkaStorage when it is nothing that milepost can look into."""
    path = path.rstrip("/") or "/"
    try:
        mode = disk.stat(path).st_mode
        if stat.S_ISLNK(mode):
            mode = _followed(disk, path)
    except FileNotFoundError:
        raise KafkaStorage(f"{path}: no such file or directory") from None
    if stat.S_ISREG(mode):
        return Target(path, PathKind.FILE)
    if not stat.S_ISDIR(mode):
        raise KafkaStorage(f"{path}: {_other_kind(mode)}; name a file, a partition directory or a data directory")
    return Target(path, _directory_kind(disk, path))


def _followed(disk: Disk, path: str) -> int:
    try:
        return disk.stat(path + "/.").st_mode
    except OSError:
        raise KafkaStorage(f"{path}: a symbolic link that leads to no directory; name the file it stands for") from None


def _directory_kind(disk: Disk, path: str) -> PathKind:
    listing = disk.listdir(path)
    if any(is_log_name(name) for name in listing):
        return PathKind.PARTITION
    kinds = {read_name(name).kind for name in listing}
    if kinds & {FileKind.CHECKPOINT, FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN} or partitions_in(disk, path):
        return PathKind.DATA
    if is_partition_name(posixpath.basename(posixpath.abspath(path))) or kinds & {FileKind.LEADER_EPOCHS, *SEGMENT_KINDS}:
        return PathKind.PARTITION
    raise KafkaStorage(
        f"{path}: neither segments (such as {names.file_name(0, names.LOG)}) nor partition directories (such as page_visits-0) are in it; "
        "name a partition directory, a data directory or a file of one"
    )


def partitions_in(disk: Disk, data_directory: str) -> list[str]:
    """The names of the partition directories, the ones marked as deleted or stray among them, in order."""
    named = [name for name in sorted(disk.listdir(data_directory)) if is_partition_name(name)]
    return [name for name in named if is_directory(disk, f"{data_directory}/{name}")]


def is_partition_name(name: str) -> bool:
    try:
        parse_directory_name(name)
    except KafkaStorage:
        return False
    return True


def files_in(disk: Disk, partition_directory: str) -> list[FileName]:
    return [read_name(name) for name in sorted(disk.listdir(partition_directory))]


def segment_bases(disk: Disk, partition_directory: str) -> list[int]:
    """The base offsets of the segments of a partition directory, ascending."""
    return sorted(int(name[: -len(names.LOG)]) for name in disk.listdir(partition_directory) if is_log_name(name))


def is_log_name(name: str) -> bool:
    """Whether a file of this name is the `.log` of a segment."""
    return names.is_segment_file(name, names.LOG) and int(name[: -len(names.LOG)]) <= MAX_OFFSET


def _other_kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a directory",
    }
    return kinds.get(stat.S_IFMT(mode), f"not a regular file (mode {stat.filemode(mode)})")
