"""From tables to topics: Parquet, CSV or JSON files, or any DataFrame, become partition directories with all their indexes.

    load(spark, "visits/*.parquet", "data", "page_visits", key="user", timestamp="time", partitions=6, sort=True)

A row becomes a record: `key` names its key column, `value` its value column; without `value` the whole row is the value, as JSON. Columns
that are neither text nor binary are cast to text. Rows go to partitions by their key (murmur2, as Kafka's clients do), or by the column
`partition`. With `sort` the records of each partition are in the order of their timestamps, over the whole load.

The load is all or nothing, and once for each `name`: one made of what was asked for, unless it is given. A DataFrame has no name of its
own, so it needs one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.jobs.copying import BATCH, ends_of, ensure_free, grown_by, is_done, make_topic, name_of
from milepost.spark.jobs.job import NOTHING, Job, JobResult
from milepost.spark.jobs.tasks import Progress, nobody_watches, watching
from milepost.spark.paths import absolute

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json")
CSV_OPTIONS = {"header": "true", "inferSchema": "true"}
TIMESTAMP = "__timestamp"


def load(
    spark: SparkSession,
    source: str | tuple[str, ...] | list[str] | DataFrame,
    data: str,
    topic: str,
    *,
    format: str | None = None,
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
    key: str | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    partition: str | None = None,
    headers: str | None = None,
    partitions: int = 1,
    segment_bytes: int = 1 << 30,
    codec: str = "none",
    sort: bool = False,
    name: str | None = None,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Append the rows to `topic` of the data directory `data`; a topic that is new gets `partitions` partitions."""
    frame = None if isinstance(source, str | tuple | list) else source
    if frame is not None and name is None:
        raise InvalidArgument("a DataFrame is loaded under a name, so that a second run does not load it twice: give name=…")
    if sort and timestamp is None:
        raise InvalidArgument("sort is by time: say which column has it, with timestamp=…")
    paths = [source] if isinstance(source, str) else [str(path) for path in source] if isinstance(source, tuple | list) else []
    columns = {"key": key, "value": value, "timestamp": timestamp, "partition": partition, "headers": headers}
    inputs: dict[str, object] = {"source": paths or "a DataFrame", "format": format, "data": data, "topic": topic, **columns}
    name = name or name_of("load", inputs)
    with Job("load", {**inputs, "name": name, "partitions": partitions, "sort": sort, "codec": codec}, evidence, spark) as job:
        job.count(records=0)
        if is_done(Disk(), data, name):
            job.outcome = NOTHING
            job.details["reason"] = f"{name} was loaded before; another name loads it again"
        else:
            ensure_free(Disk(), data)
            table = read_files(spark, paths, format, schema, options) if frame is None else frame
            rows = as_records(table, columns, sort)
            sink = {
                "path": absolute(data, "data"), "topic": topic, "partitions": partitions, "segmentBytes": segment_bytes,
                "kafka.compression.type": codec, "commitId": f"{name}:{BATCH}",
                **({} if timestamp is None else {"timestampColumn": TIMESTAMP}),
            }  # fmt: skip
            make_topic(Disk(), data, topic, partitions, segment_bytes)
            before = ends_of(data, {topic})
            read = _write(spark, rows, {option: str(given) for option, given in sink.items()}, progress)
            grown = grown_by(before, ends_of(data, {topic}))
            job.count(records=grown)
            job.check("the topic grew by the rows that were read", grown >= read, f"by {grown}, {read} rows read")
    return job.result


def read_files(
    spark: SparkSession, paths: Sequence[str], format: str | None, schema: str | None, options: Mapping[str, str] | None
) -> DataFrame:
    """The table in the files; without a schema (in Spark's words), Spark finds out."""
    if format is None:
        endings = {path.rstrip("*/").rpartition(".")[2].lower() for path in paths}
        known = endings & {*FORMATS, "jsonl"}
        if len(known) != 1 or endings != known:
            raise InvalidArgument(
                f"which format? {', '.join(paths)} does not say; give format: {', '.join(FORMATS)}, or another of Spark's"
            )
        format = known.pop().removesuffix("l")
    given = {**(CSV_OPTIONS if format == "csv" else {}), **(options or {})}
    reader = spark.read.format(format).options(**given)
    return (reader if schema is None else reader.schema(schema)).load(list(paths))


def as_records(frame: DataFrame, columns: Mapping[str, str | None], sort: bool) -> DataFrame:
    """The columns that a sink takes."""
    from pyspark.sql import functions as f

    named = [column for column in columns.values() if column is not None]
    missing = [column for column in named if column not in frame.columns]
    if missing:
        raise InvalidArgument(f"there is no column {', '.join(missing)}; the table has {', '.join(frame.columns)}")
    types = dict(frame.dtypes)

    def content(column: str) -> Column:
        found = f.col(f"`{column}`")
        return found if types[column] in ("string", "binary") else found.cast("string")

    key, value, timestamp = columns["key"], columns["value"], columns["timestamp"]
    whole = f.to_json(f.struct(*(f.col(f"`{column}`") for column in frame.columns)))
    chosen = [(whole if value is None else content(value)).alias("value")]
    if key is not None:
        chosen.append(content(key).alias("key"))
    if timestamp is not None:
        chosen.append(moment(f.col(f"`{timestamp}`"), types[timestamp]).alias(TIMESTAMP))
    if columns["partition"] is not None:
        chosen.append(f.col(f"`{columns['partition']}`").cast("int").alias("partition"))
    if columns["headers"] is not None:
        chosen.append(f.col(f"`{columns['headers']}`").alias("headers"))
    rows = frame.select(*chosen)
    if not sort:
        return rows
    # Tasks by ranges of time, and the commit appends them in their order: so do all partitions.
    return rows.repartitionByRange(f.col(TIMESTAMP)).sortWithinPartitions(TIMESTAMP)


def moment(column: Column, kind: str) -> Column:
    """A time: of a timestamp column, of text that Spark can read as one, or of a number of milliseconds since 1970."""
    from pyspark.sql import functions as f

    return f.timestamp_millis(column) if kind in ("bigint", "int") else column.cast("timestamp")


def _write(spark: SparkSession, rows: DataFrame, sink: Mapping[str, str], progress: Progress) -> int:
    """How many rows went into the sink."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    counted = rows.observe(seen, f.count(f.lit(1)).alias("rows"))
    with watching(spark, None, progress):
        counted.write.format("milepost").options(**sink).mode("append").save()
    return int(seen.get["rows"])
