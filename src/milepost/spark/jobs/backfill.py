"""Copying a slice of a log, by time or by offset, into another topic: keys, values, headers and timestamps as they are.

    backfill(spark, "data", "page_visits", "data", "page_visits_again", time=(1526384718283, None))

The rows never leave the Python workers: each task decodes its split and stages batches, the driver commits them (see `copying`). Records
of a partition stay in their order. With `partitions="keep"` a record goes to the partition of the number it came from, with "key" to
the one of its key (murmur2, as Kafka's clients do). A record without a timestamp gets that of the copy.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.clock import SystemClock
from milepost.errors import InvalidArgument
from milepost.files import Disk, make_directories
from milepost.spark.bounds import batch_ranges
from milepost.spark.columns import RECORDS, Columns
from milepost.spark.jobs.copying import BATCH, ends_of, ensure_free, grown_by, is_done, make_topic, name_of
from milepost.spark.jobs.job import NOTHING, Job, JobResult
from milepost.spark.jobs.source import log_options
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.sink.commit import Commit
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.partition_counts import in_directory
from milepost.spark.sink.staging import COMMIT_FILE, StagedFile, remove_tree, sweep
from milepost.spark.transport import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEP, BY_KEY = "keep", "key"
COLUMNS = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class CopyTask:
    number: int
    split: Split
    columns: tuple[str, ...]
    options: SinkOptions
    job: str


def backfill(
    spark: SparkSession,
    source: str | Sequence[str] | None,
    topics: str,
    data: str,
    target: str,
    *,
    bootstrap_servers: str | None = None,
    time: tuple[int | None, int | None] = (None, None),
    offsets: tuple[str | None, str | None] = (None, None),
    partitions: str = KEEP,
    codec: str = "none",
    committed: bool = True,
    name: str | None = None,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Append the slice of the topics (separated by commas) to the topic `target` of the data directory `data`, once for each `name`."""
    if partitions not in (KEEP, BY_KEY):
        raise InvalidArgument(f"partitions is {partitions!r}; {KEEP} or {BY_KEY} is possible")
    more = {"kafka.isolation.level": "read_committed"} if committed else {}
    options = log_options(source, topics, time=time, offsets=offsets, more=more, bootstrap_servers=bootstrap_servers)
    inputs: dict[str, object] = {
        "source": list(options.paths) or bootstrap_servers, "topics": topics, "data": data, "target": target, "time": list(time),
        "offsets": list(offsets), "partitions": partitions, "committed": committed,
    }  # fmt: skip
    name = name or name_of("backfill", inputs)
    with Job("backfill", {**inputs, "name": name, "codec": codec}, evidence, spark) as job:
        job.count(records=0, bytes=0)
        if is_done(Disk(), data, name):
            job.outcome = NOTHING
            job.details["reason"] = f"{name} was committed before; another name copies it again"
        else:
            settings = {"path": data, "topic": target, "kafka.compression.type": codec, "timestampColumn": "timestamp"}
            _Copy(spark, options, settings, partitions == KEEP, name, job, progress).run()
    return job.result


class _Copy:
    def __init__(
        self,
        spark: SparkSession,
        source: SourceOptions,
        settings: dict[str, str],
        keeps_partitions: bool,
        name: str,
        job: Job,
        progress: Progress,
    ):
        self.spark = spark
        self.source = source
        self.sink = SinkOptions.parse(settings)
        self.keeps_partitions = keeps_partitions
        self.name = name
        self.job = job
        self.progress = progress
        self.disk = Disk()
        self.staging = f"{self.sink.staging}/{name.replace('/', '_')}"

    def run(self) -> None:
        data, target = self.sink.path, self.sink.topic
        assert data is not None and target is not None
        ensure_free(self.disk, data)
        with open_transport(self.source) as transport:
            many = max((each.partition + 1 for each in transport.partitions(self.source.subscription)), default=1)
            splits = transport.plan(batch_ranges(self.source, transport, SystemClock().now_ms()))
        make_topic(self.disk, data, target, many, self.sink.segment_bytes)
        there = in_directory(self.disk, data, many)(target)
        if self.keeps_partitions and there < many:
            raise InvalidArgument(
                f"{target} has {there} partitions, and the slice comes from {many}; spread it by key instead (partitions=key)"
            )
        before = ends_of(data, {target})
        self._copy(splits)
        grown, copied = grown_by(before, ends_of(data, {target})), self.job.counts["records"]
        self.job.check("the topic grew by what was read", grown >= copied, f"by {grown}, {copied} read")

    def _copy(self, splits: Sequence[Split]) -> None:
        files: tuple[StagedFile, ...] = ()
        if not self.disk.exists(f"{self.staging}/{COMMIT_FILE}"):
            # Nothing of an earlier attempt counts: its commit had not begun.
            remove_tree(self.disk, self.staging)
            make_directories(self.disk, self.sink.staging)
            sweep(self.disk, self.sink.staging, SystemClock())
            columns = (*COLUMNS, "partition") if self.keeps_partitions else COLUMNS
            tasks = [CopyTask(number, split, columns, self.sink, self.staging) for number, split in enumerate(splits)]
            files = tuple(file for staged in run_tasks(self.spark, tasks, copy_split, self.progress) for file in staged)
            make_directories(self.disk, self.staging)
        records = Commit(self.sink, self.staging, self.disk).run(files, self.name, BATCH)
        self.job.count(records=records, bytes=sum(file.size for file in files))


def copy_split(task: CopyTask) -> tuple[StagedFile, ...]:
    from milepost.spark.sink.task import stage

    # Padded: the commit appends the files by name, in the order of the tasks, which is that of the offsets.
    attempt = f"{task.number:06d}-{uuid.uuid4().hex[:12]}"
    batches = task.split.read(Columns(RECORDS, task.columns))
    return stage(batches, task.options, task.job, task.number, attempt)
