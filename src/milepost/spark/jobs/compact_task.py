"""What one task of a compaction does: a group of segments becomes one, in staging, with all its indexes."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field

from milepost.clock import SystemClock
from milepost.config.topic import LogConfig
from milepost.files import Disk, HandlePool, make_directories
from milepost.log.cleaning.cleaner import Cleaner, CleanerStats
from milepost.log.cleaning.cleaning_plan import Source
from milepost.log.cleaning.filtering import LastRecord
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.segment import names
from milepost.segment.profile import IndexProfile
from milepost.segment.segment import Segment
from milepost.segment.txn_index import AbortedTransaction
from milepost.spark.jobs.surviving import PartialTransactions, SurvivingOffsets, SurvivorFilter
from milepost.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OldSegment:
    base_offset: int
    next_base: int
    mtime: float
    keep_legacy_tombstones: bool


@dataclass(frozen=True, slots=True)
class CompactTask:
    partition: TopicPartition
    directory: str
    group: tuple[OldSegment, ...]
    is_first: bool
    """Whether nothing of the log lies before."""
    config: LogConfig
    aborted: tuple[AbortedTransaction, ...]
    producers: dict[int, LastRecord]
    now_ms: int
    upper_bound: int
    survivors: str
    """Where the offsets lie that survive, as Parquet."""
    staging: str

    @property
    def base_offset(self) -> int:
        return self.group[0].base_offset


@dataclass(slots=True)
class Compacted:
    partition: TopicPartition
    bases: tuple[int, ...]
    staging: str
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    files: tuple[str, ...] = field(default=())
    """Suffixes of the files that the new segment has."""


def compact_group(task: CompactTask) -> Compacted:
    return _GroupCleaner(task).run()


class _GroupCleaner(Cleaner):
    """The copying part of the broker's cleaner, over handles of this task."""

    def __init__(self, task: CompactTask):
        self.task = task
        self.disk = Disk()
        self.pool = HandlePool(self.disk)
        # The map is needed for nothing here, so it is as small as it can be.
        super().__init__(OffsetMap(1024))

    def run(self) -> Compacted:
        task, stats = self.task, CleanerStats()
        known = SurvivingOffsets(
            surviving_offsets(task.survivors, task.partition, task.base_offset, task.group[-1].next_base), task.upper_bound - 1
        )
        transactions = PartialTransactions(task.aborted, task.base_offset, task.is_first)
        batch_filter = SurvivorFilter(
            known,  # type: ignore[arg-type]
            transactions,
            task.producers,
            task.now_ms,
            task.config.delete_retention_ms,
            task.upper_bound,
            IndexProfile(task.config.index_profile) is IndexProfile.PER_APPEND,
            stats.filter,
        )
        directory = f"{task.staging}/{task.partition}-{task.base_offset}"
        make_directories(self.disk, directory)
        made = Segment.create(self.pool, directory, task.base_offset, task.config, SystemClock(), random.Random(0))
        transactions.index = made.txn_index
        for old in task.group:
            segment = Segment(self.pool, task.directory, old.base_offset, task.config, SystemClock(), random.Random(0))
            source = Source(segment, old.next_base, old.mtime)
            self._copy(source, made, batch_filter, old.keep_legacy_tombstones, stats)
            segment.close_handles()
        made.seal()
        made.flush()
        made.close_handles()
        files = tuple(suffix for suffix in names.SEGMENT_SUFFIXES if self.disk.exists(made.path(suffix)))
        for suffix in files:
            # Rules about the age of files still hold.
            self.disk.set_mtime(made.path(suffix), task.group[-1].mtime)
        self.disk.sync_directory(directory)
        bases = tuple(old.base_offset for old in task.group)
        kept = stats.filter
        return Compacted(
            task.partition, bases, directory, stats.bytes_read, made.size, kept.records_read, kept.records_kept, files
        )


def surviving_offsets(path: str, partition: TopicPartition, start: int, end: int) -> array[int]:
    """Those from `start` up to, not including, `end`, rising."""
    import pyarrow.dataset as ds

    of_partition = (ds.field("topic") == partition.topic) & (ds.field("partition") == partition.partition)
    between = (ds.field("offset") >= start) & (ds.field("offset") < end)
    table = ds.dataset(path, format="parquet").to_table(columns=["offset"], filter=of_partition & between)
    found = table.sort_by("offset").column("offset").combine_chunks()
    offsets = array("q")
    for chunk in getattr(found, "chunks", [found]):
        if len(chunk):
            offsets.frombytes(memoryview(chunk.buffers()[1])[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
    return offsets
