"""From a topic to a table: Parquet files by date and hour, or a Delta table; what is new since the last run, each record once.

    export(spark, "data", "page_visits", "lake/page_visits")

The target remembers up to which offset each partition is exported (see `export_state`); a run goes on from there to the end of the log, in
commits of at most `commit_bytes`, so that a run that is killed loses the work of one commit and nothing else. Running it again when
nothing is new changes nothing.

Only committed records are exported unless `committed=False`; the end is then the last stable offset, which an open transaction holds back
until it is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.clock import SystemClock
from milepost.errors import InvalidArgument, OffsetOutOfRange
from milepost.files import Disk, make_directories
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.spark.bounds import batch_ranges, data_loss
from milepost.spark.columns import RECORDS, Columns
from milepost.spark.jobs.delta import add_to_table, ensure_deltalake
from milepost.spark.jobs.export_state import ExportCommit, ExportState
from milepost.spark.jobs.job import NOTHING, Job, JobResult
from milepost.spark.jobs.source import log_options
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.offset_range import OffsetRange
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.paths import absolute
from milepost.spark.transport import Transport
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.spark.jobs.export_task import Exported, ExportTask

PARQUET, DELTA = FORMATS = ("parquet", "delta")
COMMIT_BYTES = 16 << 30
DEFAULT_COLUMNS = Columns.of(RECORDS, include_headers=True).names


def export(
    spark: SparkSession,
    source: str | Sequence[str] | None,
    topics: str,
    target: str,
    *,
    bootstrap_servers: str | None = None,
    format: str = PARQUET,
    partition_by: str = "hour",
    columns: Sequence[str] = DEFAULT_COLUMNS,
    codec: str = "snappy",
    committed: bool = True,
    time: tuple[int | None, int | None] = (None, None),
    fail_on_data_loss: bool = True,
    commit_bytes: int = COMMIT_BYTES,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Export what is new of the topics (separated by commas) from data directories, or from brokers, into `target`."""
    from milepost.spark.jobs.export_task import CODECS, PARTITIONINGS

    for name, value, possible in (
        ("format", format, FORMATS),
        ("partition_by", partition_by, PARTITIONINGS),
        ("codec", codec, CODECS),
    ):
        if value not in possible:
            raise InvalidArgument(f"{name} is {value!r}; {', '.join(possible)} are possible")
    if format == DELTA:
        ensure_deltalake()
    settings: dict[str, Any] = {
        "format": format, "partition_by": partition_by, "columns": list(columns), "topics": topics, "committed": committed,
    }  # fmt: skip
    more = {"failOnDataLoss": str(fail_on_data_loss).lower()}
    if committed:
        more["kafka.isolation.level"] = "read_committed"
    options = log_options(source, topics, time=time, more=more, bootstrap_servers=bootstrap_servers)
    inputs = {"source": list(options.paths) or bootstrap_servers, "target": target, "codec": codec, **settings}
    with Job("export", inputs, evidence, spark) as job:
        disk = Disk()
        make_directories(disk, target)
        lock = DirectoryLock(target, disk)
        try:
            whole = absolute(target, "target")
            _Export(spark, whole, ExportState(disk, whole), options, settings, codec, commit_bytes, job, progress).run()
        finally:
            lock.release()
    return job.result


@dataclass(frozen=True)
class _Export:
    spark: SparkSession
    target: str
    state: ExportState
    options: SourceOptions
    settings: dict[str, Any]
    codec: str
    commit_bytes: int
    job: Job
    progress: Progress

    def run(self) -> None:
        job, state = self.job, self.state
        last = state.last()
        state.check_settings(last, self.settings)
        if last is not None:
            job.count(files_finished=self._publish(last))
        state.sweep()
        job.count(commits=0, files=0, records=0, bytes=0)
        with open_transport(self.options) as transport:
            ranges = self._ranges(transport, {} if last is None else last.offsets)
            while ranges:
                now = self._limited(transport, ranges)
                last = self._commit(transport, last, now)
                ends = {each.partition: each.end for each in now}
                left = (OffsetRange(each.partition, ends.get(each.partition, each.start), each.end) for each in ranges)
                ranges = [each for each in left if each.size > 0]
        if not job.counts["commits"]:
            job.outcome = NOTHING
        job.details["offsets"] = {} if last is None else {str(name): offset for name, offset in sorted(last.offsets.items())}

    def _ranges(self, transport: Transport, exported: dict[TopicPartition, int]) -> list[OffsetRange]:
        """What is new: from where the last commit ended to the end of the log."""
        asked = {each.partition: each for each in batch_ranges(self.options, transport, SystemClock().now_ms())}
        known = [partition for partition in exported if partition in set(transport.partitions(self.options.subscription))]
        earliest, latest = transport.earliest(known), transport.latest(known)
        found = []
        for partition in sorted({*asked, *known}):
            if partition in exported and exported[partition] > latest[partition]:
                raise OffsetOutOfRange(
                    f"data loss: {partition} was exported up to offset {exported[partition]}, and the log ends at {latest[partition]}: "
                    "it was cut or made anew; export into another directory"
                )
            whole = asked.get(partition)
            if whole is None:
                continue
            start = exported.get(partition, whole.start)
            if partition in exported and start < earliest[partition]:
                data_loss(self.options, f"{partition} was exported up to {start}, and the log starts at {earliest[partition]}")
                start = earliest[partition]
            if start < whole.end:
                found.append(OffsetRange(partition, start, whole.end))
        return found

    def _limited(self, transport: Transport, ranges: list[OffsetRange]) -> list[OffsetRange]:
        if transport.bytes_between(ranges) <= self.commit_bytes:
            return ranges
        ends = transport.limit_bytes(ranges, self.commit_bytes)
        cut = (OffsetRange(each.partition, each.start, ends[each.partition]) for each in ranges)
        return [each for each in cut if each.size > 0]

    def _commit(self, transport: Transport, last: ExportCommit | None, ranges: list[OffsetRange]) -> ExportCommit:
        from milepost.spark.jobs.export_task import export_split

        number = 1 if last is None else last.number + 1
        exported = run_tasks(self.spark, self._tasks(transport, number, ranges), export_split, self.progress)
        self._check(ranges, exported)
        before = {} if last is None else last.offsets
        offsets = {**before, **{each.partition: each.end for each in ranges}}
        files = tuple(file for each in exported for file in each.files)
        commit = ExportCommit(number, self.job.id, self.settings, offsets, files)
        self.state.write(commit)
        self._publish(commit)
        self.state.sweep()
        self.job.count(commits=1, files=len(files), records=commit.records, bytes=sum(file.size for file in files))
        return commit

    def _tasks(self, transport: Transport, number: int, ranges: list[OffsetRange]) -> list[ExportTask]:
        from milepost.spark.jobs.export_task import ExportTask

        staging = f"_milepost/staging/{self.job.id}-{number}"
        return [
            ExportTask(
                place,
                number,
                split,
                tuple(self.settings["columns"]),
                self.target,
                staging,
                self.settings["partition_by"],
                self.codec,
            )
            for place, split in enumerate(transport.plan(ranges))
        ]

    def _check(self, ranges: list[OffsetRange], exported: Sequence[Exported]) -> None:
        rows = sum(each.rows for each in exported)
        written = sum(file.rows for each in exported for file in each.files)
        self.job.check("every row that was read was written", rows == written, f"{rows} read, {written} written")
        most = sum(each.size for each in ranges)
        self.job.check("no more rows than offsets", rows <= most, f"{rows} rows of {most} offsets")

    def _publish(self, commit: ExportCommit) -> int:
        moved = self.state.publish(commit)
        if self.settings["format"] == DELTA:
            add_to_table(self.target, commit, tuple(self.settings["columns"]), SystemClock().now_ms())
        return moved
