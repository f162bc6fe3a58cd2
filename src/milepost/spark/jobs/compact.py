"""Compaction of a log of any size: afterwards each key has its newest record, and nothing older.

    compact(spark, "data", "profiles")

    1  own     the data directory is locked and its logs are opened, as a broker would; the active segment is rolled
    2  keys    Spark reads (key, offset) of all committed records and finds the newest offset of every key. It sorts on disk what
               does not fit into memory
    3  rewrite tasks copy groups of segments into staging without what does not survive, by the rules of the broker's cleaner
               (`log.filtering`): tombstones stay for `delete.retention.ms` and go in a later compaction, markers stay while they mean
               something, offsets never change
    4  swap    each new segment takes the place of its group as in a broker (`log.swap`): a crash leaves the old ones or the new one

How far the log is compacted is noted in `cleaner-offset-checkpoint`, as a broker does; a second run finds nothing to do. Killed in 2 or 3,
the job has changed nothing; in 4, the groups that were swapped stay compacted, and the next run does the rest.

Records without a key cannot be compacted. The job refuses a log that has some, unless told to drop them, which is what a broker does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from milepost.codec.text import counted
from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidArgument
from milepost.files import Disk, make_directories, remove_file
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaning_plan import Plan, group_sources, make_plan
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.segment import names
from milepost.segment.segment import Segment
from milepost.spark.jobs.compact_task import Compacted, CompactTask, OldSegment, compact_group
from milepost.spark.jobs.job import NOTHING, Job, JobResult
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.paths import absolute
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import remove_tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING = "compact-"
SCHEMA = "topic string, partition int, key binary, offset bigint"


def compact(
    spark: SparkSession,
    data: str,
    topics: str | Sequence[str],
    *,
    config: Mapping[str, object] | None = None,
    drop_keyless: bool = False,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Compact the topics (a name, or several separated by commas) of a data directory that no broker has open."""
    wanted = [topic.strip() for topic in (topics.split(",") if isinstance(topics, str) else topics)]
    inputs = {"data": data, "topics": wanted, "config": dict(config or {}), "drop_keyless": drop_keyless}
    with Job("compact", inputs, evidence, spark) as job:
        disk = Disk()
        if not disk.exists(data):
            raise InvalidArgument(f"{data}: no such data directory")
        job.count(
            partitions=0, segments_before=0, segments_after=0, records_read=0, records_kept=0, bytes_read=0, bytes_written=0
        )
        logs = LogManager(BrokerConfig.parse({"log.dirs": absolute(data, "data")}), {topic: dict(config or {}) for topic in wanted})
        logs.startup()
        try:
            _Compaction(spark, disk, logs, data, job, progress).run(wanted, drop_keyless)
        finally:
            logs.shutdown()
    return job.result


class _Compaction:
    def __init__(self, spark: SparkSession, disk: Disk, logs: LogManager, data: str, job: Job, progress: Progress):
        self.spark = spark
        self.disk = disk
        self.logs = logs
        self.data = data
        self.job = job
        self.progress = progress
        beside = SinkOptions(absolute(data, "data"), None).staging
        self.staging = f"{beside}/{STAGING}{job.id}"
        self._sweep(beside)

    def _sweep(self, beside: str) -> None:
        """What killed compactions left: whoever has the lock is the only one."""
        for name in self.disk.listdir(beside) if self.disk.exists(beside) else ():
            if name.startswith(STAGING):
                remove_tree(self.disk, f"{beside}/{name}")

    def run(self, topics: Sequence[str], drop_keyless: bool) -> None:
        there = {partition.topic for partition in self.logs.logs}
        missing = [topic for topic in topics if topic not in there]
        if missing:
            raise InvalidArgument(
                f"there is no topic {', '.join(missing)} in {self.data}; topics there: {', '.join(sorted(there))}"
            )
        plans = self._plans(set(topics))
        if not plans:
            self.job.outcome = NOTHING
            return
        make_directories(self.disk, self.staging)
        try:
            self._find_newest(plans, drop_keyless)
            done = run_tasks(self.spark, [task for plan in plans for task in self._tasks(plan)], compact_group, self.progress)
            for plan in plans:
                self._swap_all(plan, [each for each in done if each.partition == plan.log.partition])
        finally:
            remove_tree(self.disk, self.staging)

    # 1: what there is to do.

    def _plans(self, topics: set[str]) -> list[Plan]:
        named = {name for directory in self.logs.directories for name in directory.high_watermarks}
        found = []
        for partition, log in sorted(self.logs.logs.items()):
            if partition.topic not in topics:
                continue
            if partition not in named:
                log.update_high_watermark(log.end_offset)  # a log without a checkpoint was put there whole
            if log.segments.active.size and log.last_stable_offset == log.end_offset:
                log.roll()
            work = measure(log, self.logs.cleaner_offset(partition))
            if work.cleanable_bytes:
                found.append(make_plan(work))
        self.job.count(partitions=len(found))
        return found

    # 2: the newest record of every key.

    def _find_newest(self, plans: Sequence[Plan], drop_keyless: bool) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        keyless = Observation()
        rows = self._rows(plans).observe(keyless, f.count_if(f.col("key").isNull()).alias("keyless"))
        newest = rows.where("key IS NOT NULL").groupBy("topic", "partition", "key").agg(f.max("offset").alias("offset"))
        order = ("topic", "partition", "offset")
        ordered = newest.select(*order).repartitionByRange(*order).sortWithinPartitions(*order)
        ordered.write.parquet(f"{self.staging}/survivors")
        without = int(keyless.get["keyless"])
        self.job.count(keyless=without)
        if without and not drop_keyless:
            raise InvalidArgument(
                f"{counted(without, 'record')} {'has' if without == 1 else 'have'} no key, and compaction would drop what has none: "
                "drop_keyless (--drop-keyless) says that it may go"
            )

    def _rows(self, plans: Sequence[Plan]) -> DataFrame:
        assigned: dict[str, list[int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for plan in plans:
            partition = plan.log.partition
            assigned.setdefault(partition.topic, []).append(partition.partition)
            ends.setdefault(partition.topic, {})[str(partition.partition)] = plan.upper_bound
        options = {
            "path": self.data, "assign": json.dumps(assigned), "endingOffsets": json.dumps(ends), "endOfLog": "logEnd",
            "kafka.isolation.level": "read_committed",
        }  # fmt: skip
        return self.spark.read.format("milepost").schema(SCHEMA).options(**options).load()

    # 3: what the tasks do.

    def _tasks(self, plan: Plan) -> list[CompactTask]:
        config = plan.log.config
        groups = group_sources(plan.sources, config.segment_bytes, config.segment_index_bytes, plan.upper_bound)
        found = []
        for number, group in enumerate(groups):
            old = tuple(
                OldSegment(source.base_offset, source.next_base, source.mtime, source.mtime * 1000 > plan.legacy_horizon_ms)
                for source in group
            )
            aborted = tuple(
                each for each in plan.aborted if each.last_offset >= old[0].base_offset and each.first_offset < old[-1].next_base
            )
            found.append(
                CompactTask(
                    plan.log.partition, plan.log.directory, old, number == 0, config, aborted, plan.producers, plan.now_ms,
                    plan.upper_bound, f"{self.staging}/survivors", self.staging,
                )
            )  # fmt: skip
            for source in group:
                source.segment.close_handles()
        return found

    # 4: the new segments in the places of the old ones.

    def _swap_all(self, plan: Plan, done: Sequence[Compacted]) -> None:
        log, job = plan.log, self.job
        for each in sorted(done, key=lambda each: each.bases[0]):
            self._swap(log, each)
            job.count(
                segments_before=len(each.bases), segments_after=1, records_read=each.records_read, records_kept=each.records_kept,
                bytes_read=each.bytes_read, bytes_written=each.bytes_written,
            )  # fmt: skip
        read = sum(each.bytes_read for each in done)
        whole = sum(source.segment.size for source in plan.sources)
        job.check(f"{log.partition}: every byte was read", read == whole, f"{read} of {whole}")
        self.logs.write_cleaner_offset(log.partition, plan.upper_bound)

    def _swap(self, log: Log, each: Compacted) -> None:
        base = each.bases[0]
        for suffix in each.files:
            name = names.file_name(base, suffix)
            self.disk.rename(f"{each.staging}/{name}", f"{log.directory}/{name}{names.CLEANED}")
        self.disk.sync_directory(log.directory)
        new = Segment(log.pool, log.directory, base, log.config, log.clock, log.rng, suffix=names.CLEANED)
        old = [segment for segment in log.segments if segment.base_offset in each.bases]
        log.replace_segments([new], old)
        # Nobody reads this log now, so nobody needs the old files for a while.
        for name in self.disk.listdir(log.directory):
            if name.endswith(names.DELETED):
                remove_file(self.disk, f"{log.directory}/{name}")
