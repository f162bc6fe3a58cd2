"""Rebuilding all indexes of data directories, in parallel: `.index`, `.timeindex` and `.txnindex` from the `.log` files.

    reindex(spark, "data")

What is written is what milepost's recovery writes, byte for byte, by the rule of Kafka 3.9 and 4.3 (an entry per batch that earns one),
and any broker opens it. The job takes the `.lock` of every data directory, or refuses: a broker has its active index in memory. Logs,
snapshots and checkpoints are not touched, so a marker of a clean stop stays true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage
from milepost.files import Disk, remove_file
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.spark.jobs.job import FINDINGS, NOTHING, Job, JobResult
from milepost.spark.jobs.rebuild import TEMPORARY, RebuildTask, rebuild
from milepost.spark.jobs.stretch import stretches
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.log_files.listing import Listing, PartitionFiles, list_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 256 << 20


def reindex(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    config: Mapping[str, object] | LogConfig | None = None,
    share: int = SHARE,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Rebuild the indexes below data directories or partition directories. Damage that is met is in `details`, and makes findings."""
    named = (paths,) if isinstance(paths, str) else tuple(paths)
    settings = config if isinstance(config, LogConfig) else LogConfig.parse(config)
    inputs = {"paths": list(named), "index.interval.bytes": settings.index_interval_bytes}
    with Job("reindex", inputs, evidence, spark) as job:
        disk = Disk()
        directories = sorted({files.data_directory for files in list_partitions(disk, named).partitions.values()})
        with locked(disk, directories):
            listing = list_partitions(disk, named)
            sweep(disk, listing)
            tasks = plan(disk, listing, settings, share, job.id)
            done = run_tasks(spark, tasks, rebuild, progress)
        job.count(
            partitions=len(listing.partitions),
            segments=sum(each.segments for each in done),
            batches=sum(each.batches for each in done),
            log_bytes=sum(each.log_bytes for each in done),
            indexes_replaced=sum(each.replaced for each in done),
            indexes_unchanged=sum(each.unchanged for each in done),
        )
        planned = sum(len(task.stretch.bases) for task in tasks)
        damage = [sentence for each in done for sentence in each.damage]
        job.details["damage"] = damage
        job.check(
            "every segment was read", job.counts["segments"] == planned or bool(damage), f"{job.counts['segments']} of {planned}"
        )
        if damage:
            job.outcome = FINDINGS
        elif not job.counts["indexes_replaced"]:
            job.outcome = NOTHING
    return job.result


@contextmanager
def locked(disk: Disk, directories: Sequence[str]) -> Iterator[None]:
    """Hold the locks of all of them, or none: DirectoryLocked names the process that has one."""
    held: list[DirectoryLock] = []
    try:
        for directory in directories:
            try:
                held.append(DirectoryLock(directory, disk))
            except OSError as error:
                raise KafkaStorage(f"{directory}: it cannot be locked: {error.strerror}") from error
        yield
    finally:
        for lock in held:
            lock.release()


def plan(disk: Disk, listing: Listing, config: LogConfig, share: int, run: str) -> list[RebuildTask]:
    owners = {path: DataDirectory.peek(path, disk) for path in {files.data_directory for files in listing.partitions.values()}}
    found = [
        task
        for files in listing.partitions.values()
        if files.segments
        for task in _tasks(files, owners[files.data_directory], config, share, run)
    ]
    return sorted(found, key=lambda task: -task.stretch.size)


def _tasks(files: PartitionFiles, owner: DataDirectory, config: LogConfig, share: int, run: str) -> Iterator[RebuildTask]:
    start = max(owner.log_starts.get(files.partition, 0), files.segments[0].base_offset)
    bases = [segment.base_offset for segment in files.segments]
    for stretch in stretches(files, share):
        later = tuple(base for base in bases if base > stretch.bases[-1])
        yield RebuildTask(stretch, later, start, config, run)


def sweep(disk: Disk, listing: Listing) -> None:
    """Half-written files of runs that were killed."""
    for files in listing.partitions.values():
        for name in disk.listdir(files.directory):
            if name.endswith(TEMPORARY):
                remove_file(disk, f"{files.directory}/{name}")
