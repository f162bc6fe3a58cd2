"""Checking files, partitions and whole data directories: is everything in them what it should be?

    report = verify("data", headers_only=False)
    report.findings, report.notes, report.is_clean

A file is checked by itself where it stands by itself (checkpoints), against its `.log` (indexes), or against the whole
partition (a transaction index, a snapshot, leader epochs); then only what concerns that file is reported. A data directory is
checked with all its partitions.

Reading never writes: no lock, no recovery. Beside a running broker the end of an active segment may change while it is read,
which shows as a note at most.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from milepost.errors import CorruptCheckpoint, KafkaStorage, MilepostError
from milepost.files import Disk, read_file
from milepost.inspect.paths import (
    IGNORED_DIRECTORIES,
    FileKind,
    FileName,
    PathKind,
    ensure_regular,
    is_directory,
    look_at,
    partitions_in,
    read_name,
)
from milepost.inspect.verify.findings import Finding, Remedy, Report
from milepost.inspect.verify.verify_partition import PartitionCheck, peek
from milepost.inspect.verify.verify_segment import Progress
from milepost.log.directory.checkpoints import read_offset_checkpoint
from milepost.log.directory.clean_shutdown import parse_clean_shutdown
from milepost.log.directory.meta_properties import read_meta_properties
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.directory.partition_metadata import read_partition_metadata
from milepost.segment import names

OF_A_SEGMENT = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
OF_A_LOG = (FileKind.TXN_INDEX, FileKind.SNAPSHOT, FileKind.LEADER_EPOCHS)


def verify(
    path: str, *, headers_only: bool = False, disk: Disk | None = None, report: Report | None = None, progress: Progress = lambda done: None
) -> Report:
    """What is wrong under `path`. KafkaStorage when there is nothing there that could be checked."""
    disk, report = disk or Disk(), report or Report()
    target = look_at(disk, path)
    if target.kind is PathKind.PARTITION:
        PartitionCheck(disk, target.path, report, headers_only, progress).run()
    elif target.kind is PathKind.DATA:
        _data_directory(disk, target.path, report, headers_only, progress)
    else:
        _file(disk, target.path, report, headers_only, progress)
    return report


# A data directory.


def check_data_directory_files(disk: Disk, path: str, report: Report) -> None:
    """What lies beside the partitions: checkpoints, `meta.properties`, the marker of a clean stop."""
    partitions = partitions_in(disk, path)
    for name in sorted(disk.listdir(path)):
        if name not in partitions:
            _beside_partitions(disk, f"{path}/{name}", read_name(name), report)


def _data_directory(disk: Disk, path: str, report: Report, headers_only: bool, progress: Progress) -> None:
    check_data_directory_files(disk, path, report)
    partitions, owner = partitions_in(disk, path), peek(disk, path)
    seen: dict[object, str] = {}
    for name in partitions:
        partition, suffix = parse_directory_name(name)
        if suffix in ("delete", "stray"):
            report.add(Finding(f"{path}/{name}", f"marked as {suffix}; not looked into", is_note=True))
            continue
        if (partition, suffix) in seen:
            what = f"holds {partition}, as {seen[partition, suffix]} does"
            report.add(Finding(f"{path}/{name}", what, "a broker refuses both: move one of them elsewhere"))
        seen[partition, suffix] = name
        try:
            PartitionCheck(disk, f"{path}/{name}", report, headers_only, progress, owner).run()
        except OSError as error:
            report.add(Finding(error.filename or f"{path}/{name}", f"cannot be read: {error.strerror or error}"))


def _beside_partitions(disk: Disk, path: str, name: FileName, report: Report) -> None:
    if is_directory(disk, path):
        if name.name not in IGNORED_DIRECTORIES:
            what = "a directory that is not named TOPIC-PARTITION; Kafka refuses to start on it"
            report.add(Finding(path, what, is_note=True))
        return
    check = SMALL_FILES.get(name.kind)
    if check is not None and not name.left_over:
        _check_small(disk, path, check, report)


def _check_small(disk: Disk, path: str, check: Callable[[Disk, str], object], report: Report) -> None:
    try:
        ensure_regular(disk, path)
        check(disk, path)
    except OSError as error:
        report.add(Finding(path, f"cannot be read: {error.strerror or error}"))
    except MilepostError as error:
        is_checkpoint = isinstance(error, CorruptCheckpoint)
        advice = "repair writes it anew" if is_checkpoint else "restore it from a backup"
        remedy = Remedy.REWRITE_CHECKPOINT if is_checkpoint else None
        report.add(Finding(path, str(error).removeprefix(path).lstrip(":, "), advice, remedy=remedy))


def _check_marker(disk: Disk, path: str) -> None:
    data = read_file(disk, path)
    if data.strip():
        try:
            parse_clean_shutdown(data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise KafkaStorage(f"{path}: {len(data)} bytes that are no marker of a clean stop; the logs count as not closed") from None


SMALL_FILES: dict[FileKind, Callable[[Disk, str], object]] = {
    FileKind.CHECKPOINT: read_offset_checkpoint,
    FileKind.META_PROPERTIES: read_meta_properties,
    FileKind.PARTITION_METADATA: read_partition_metadata,
    FileKind.CLEAN_SHUTDOWN: _check_marker,
}


# One file.


def _file(disk: Disk, path: str, report: Report, headers_only: bool, progress: Progress) -> None:
    name = read_name(posixpath.basename(path))
    directory = posixpath.dirname(path) or "."
    if not name.left_over and (check := SMALL_FILES.get(name.kind)) is not None:
        _check_small(disk, path, check, report)
        return
    if name.left_over or name.kind not in (*OF_A_SEGMENT, *OF_A_LOG):
        raise KafkaStorage(f"{path}: not a file that can be checked; name a .log, an index, a snapshot or a checkpoint")
    if not posixpath.splitext(name.name)[0].isdigit() and name.kind is not FileKind.LEADER_EPOCHS:
        raise KafkaStorage(f"{path}: its name is not the twenty digits of a base offset, such as {names.file_name(0, names.LOG)}")
    whole = Report()
    check_all = PartitionCheck(disk, directory, whole, headers_only, progress)
    check_all.run(only=name.base_offset if name.kind in OF_A_SEGMENT else None)
    for finding in (*whole.findings, *whole.notes):
        if posixpath.basename(finding.file) == name.name:
            report.add(finding)
    for count in ("partitions", "segments", "batches", "records", "bytes"):
        setattr(report, count, getattr(report, count) + getattr(whole, count))
