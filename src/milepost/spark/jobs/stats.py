"""What a log holds: records, bytes, keys, times, codecs, gaps; per partition, per codec and per hour.

    result = stats(spark, "data", topics="page_visits")
    result.details["partitions"], result.details["codecs"], result.details["hours"]

Counted are the records that a reader gets between the start of the log and its high watermark: control records are batches, not records.
`missing_offsets` are those that no record has: compaction, transaction markers and damage that was repaired leave them. The number of
distinct keys takes a pass of its own, over the keys alone, and is an estimate (Spark's HyperLogLog, 5 % as it comes): `keys=True` asks
for it.

With `output`, a directory, the three tables are also written there as partitions.parquet, codecs.parquet and hours.parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from milepost.clock import SystemClock
from milepost.files import Disk
from milepost.spark.bounds import batch_ranges
from milepost.spark.frames import read
from milepost.spark.jobs.figures import CodecFigures, Figures, HourFigures
from milepost.spark.jobs.hours import start_of
from milepost.spark.jobs.job import Job, JobResult
from milepost.spark.jobs.parquet_table import write_table
from milepost.spark.jobs.source import log_options
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.log_files.split import FileSplit
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.transport import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_COLUMNS = {
    "topic": "string", "partition": "int", "start_offset": "bigint", "end_offset": "bigint", "batches": "bigint",
    "control_batches": "bigint", "transactional_batches": "bigint", "records": "bigint", "log_bytes": "bigint", "keyless": "bigint",
    "tombstones": "bigint", "missing_offsets": "bigint", "oldest_ms": "bigint", "newest_ms": "bigint", "distinct_keys": "bigint",
}  # fmt: skip
CODEC_COLUMNS = {
    "topic": "string", "codec": "string", "batches": "bigint", "stored_bytes": "bigint", "plain_bytes": "bigint", "ratio": "double",
}  # fmt: skip
HOUR_COLUMNS = {"topic": "string", "hour": "timestamp", "records": "bigint", "bytes": "bigint"}


def stats(
    spark: SparkSession,
    paths: str | Sequence[str],
    topics: str | None = None,
    *,
    keys: bool = False,
    output: str | None = None,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Figures of the topics (separated by commas; all by default) below data directories."""
    options = log_options(paths, topics)
    with Job("stats", {"paths": list(options.paths), "topics": topics, "keys": keys}, evidence, spark) as job:
        with open_transport(options) as transport:
            tasks: list[Split] = transport.plan(batch_ranges(options, transport, SystemClock().now_ms()))
        found = merged(part for parts in run_tasks(spark, tasks, measure_split, progress) for part in parts)
        distinct = _distinct_keys(spark, options) if keys and tasks else {}
        rows = [{**figures.as_row(), "distinct_keys": distinct.get(str(figures.partition))} for figures in found]
        tables = {"partitions": rows, "codecs": codec_rows(found), "hours": hour_rows(found)}
        job.details.update(tables)
        job.count(
            partitions=len(found),
            batches=sum(figures.batches for figures in found),
            records=sum(figures.records for figures in found),
            log_bytes=sum(figures.log_bytes for figures in found),
            missing_offsets=sum(figures.missing_offsets for figures in found),
        )
        counted = sum(row["records"] for row in tables["hours"])
        job.check("hours add up to all records", counted == job.counts["records"], f"{counted} of {job.counts['records']}")
        if output is not None:
            disk = Disk()
            for (name, table), columns in zip(tables.items(), (PARTITION_COLUMNS, CODEC_COLUMNS, HOUR_COLUMNS), strict=True):
                write_table(disk, f"{output}/{name}.parquet", columns, table)
    return job.result


def measure_split(split: Split) -> list[Figures]:
    from milepost.spark.jobs.measuring import measure

    assert isinstance(split, FileSplit), "figures are those of files"
    return measure(split)


def merged(parts: Iterator[Figures]) -> list[Figures]:
    """One for each partition, whatever the order of the tasks."""
    found: dict[str, Figures] = {}
    for part in sorted(parts, key=lambda part: (part.partition, part.start)):
        name = str(part.partition)
        if name in found:
            found[name].add(part)
        else:
            found[name] = part
    return list(found.values())


def codec_rows(found: Sequence[Figures]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], CodecFigures] = {}
    for figures in found:
        for codec, each in figures.codecs.items():
            sums.setdefault((figures.partition.topic, codec), CodecFigures()).add(each)
    return [
        {
            "topic": topic, "codec": codec, "batches": each.batches, "stored_bytes": each.stored_bytes,
            "plain_bytes": each.plain_bytes, "ratio": round(each.ratio, 3),
        }
        for (topic, codec), each in sorted(sums.items())
    ]  # fmt: skip


def hour_rows(found: Sequence[Figures]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, int | None], HourFigures] = {}
    for figures in found:
        for hour, each in figures.hours.items():
            sums.setdefault((figures.partition.topic, hour), HourFigures()).add(each)
    ordered = sorted(sums.items(), key=lambda item: (item[0][0], item[0][1] is None, item[0][1] or 0))
    return [
        {"topic": topic, "hour": None if hour is None else start_of(hour), "records": each.records, "bytes": each.bytes}
        for (topic, hour), each in ordered
    ]


def _distinct_keys(spark: SparkSession, options: SourceOptions) -> dict[str, int]:
    from pyspark.sql import functions as f

    keys = read(spark, options.paths, ",".join(options.subscription.topics or ()) or None, columns=("topic", "partition", "key"))
    counted = keys.groupBy("topic", "partition").agg(f.approx_count_distinct("key").alias("keys")).collect()
    return {f"{row['topic']}-{row['partition']}": row["keys"] for row in counted}
