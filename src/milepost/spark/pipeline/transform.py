"""The stage that says in SQL what should become of records: topics in, tables and topics out.

A topic's values are JSON, or lines of CSV; `schema` names the fields that are read of them, as columns of a view. The columns `_key`,
`_time` and `_offset` are the record's own. A value that is no JSON gives nulls, and itself in `_corrupt_record` if the schema has that.
What the query gives is written as Parquet (replaced as a whole) or to a topic (each row as JSON, once for what it was made of: `written`).

With `stream` the same runs as a streaming query over what is new, up to the end there is now, and remembers in its checkpoint how far it
came; aggregations over time need a `watermark`, and give a window when the watermark has passed it. Without `stream` the whole topic is
read, up to the offsets that were noted at its beginning.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.bounds import offsets_to_json
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.pipeline.definition import Pipeline, Stage
from milepost.spark.pipeline.state import PipelineState
from milepost.spark.pipeline.written import write_once
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


JSON, CSV = FORMS = ("json", "csv")
METADATA = "_spark_metadata"
"""Where Spark's file sink keeps which batches of a stream it has written."""


def latest(data: str, topic: str) -> dict[TopicPartition, int]:
    options = SourceOptions.parse({"path": data, "subscribe": topic}, streaming=False)
    with open_transport(options) as transport:
        return transport.latest(transport.partitions(options.subscription))


def transform(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState) -> str:
    """Run it; one line about what came of it."""
    settings = stage.settings
    topics = sorted({read["topic"] for read in settings["read"].values()})
    if "ends" not in state.of(stage.name):
        ends: dict[str, dict[str, int]] = {}
        for topic in topics:
            ends |= offsets_to_json(latest(pipeline.data, topic))
        state.note(stage.name, ends=ends)
    ends = state.of(stage.name)["ends"]
    for name, read in settings["read"].items():
        make_view(spark, pipeline.data, name, read, ends, settings)
    result = spark.sql(settings["sql"])
    run = _stream if settings.get("stream") else _batch
    return "; ".join(run(result, pipeline, stage, number, output, state) for number, output in enumerate(settings["to"]))


def make_view(spark: SparkSession, data: str, name: str, read: dict[str, Any], ends: dict[str, Any], settings: Any) -> None:
    is_stream = bool(settings.get("stream"))
    reader: Any = (spark.readStream if is_stream else spark.read).format("milepost").option("path", data)
    reader = reader.option("startingOffsets", "earliest")
    topic: str = read["topic"]
    if is_stream:
        reader = reader.option("subscribe", topic)
    else:
        # Partitions that came since belong to the next run.
        reader = reader.option("assign", json.dumps({topic: sorted(map(int, ends[topic]))}))
        reader = reader.option("endingOffsets", json.dumps({topic: ends[topic]}))
    frame = parsed(reader.load(), read["schema"], read.get("format", "json"))
    watermark = (settings.get("watermark") or {}).get(name)
    if watermark is not None and is_stream:
        frame = frame.withWatermark(*watermark)
    frame.createOrReplaceTempView(name)


def parsed(frame: DataFrame, schema: str, form: str) -> DataFrame:
    from pyspark.sql import functions as f

    if form not in FORMS:
        raise InvalidArgument(f"values in the format {form} cannot be read; {', '.join(FORMS)} can")
    text = f.col("value").cast("string")
    value = f.from_json(text, schema) if form == JSON else f.from_csv(text, schema)
    own = [f.col("key").cast("string").alias("_key"), f.col("timestamp").alias("_time"), f.col("offset").alias("_offset")]
    return frame.select(value.alias("_value"), *own).select("_value.*", "_key", "_time", "_offset")


def as_records(frame: DataFrame, key: str | None) -> DataFrame:
    from pyspark.sql import functions as f

    value = f.to_json(f.struct(*[f.col(name) for name in frame.columns]))
    columns = [value.alias("value")]
    return frame.select(*columns, *([f.col(key).cast("string").alias("key")] if key else []))


def _batch(result: DataFrame, pipeline: Pipeline, stage: Stage, number: int, output: dict[str, Any], state: PipelineState) -> str:
    if "parquet" in output:
        result.write.mode("overwrite").parquet(output["parquet"])
        return f"Parquet in {output['parquet']}"

    def append(commit: str) -> None:
        writer = as_records(result, output.get("key")).write.format("milepost").mode("append")
        writer.options(**sink(pipeline, output)).option("commitId", commit).save()

    is_new = write_once(pipeline, stage, output, stage.identity.writes[number], state, append)
    return f"topic {output['topic']}{'' if is_new else ' has these rows: nothing it is made of has changed'}"


def sink(pipeline: Pipeline, output: dict[str, Any]) -> dict[str, str]:
    return {"path": pipeline.data, "topic": output["topic"], "partitions": str(output.get("partitions", 1))}


def _stream(
    result: DataFrame, pipeline: Pipeline, stage: Stage, number: int, output: dict[str, Any], state: PipelineState
) -> str:
    kept = state.output(stage.name, stage.identity.writes[number])
    state.save()
    checkpoint = f"{pipeline.work}/checkpoints/{state.key(stage.name)}.{kept['suffix']}"
    if "parquet" in output:
        _ensure_same_stream(Disk(), checkpoint, output["parquet"])
        writer = result.writeStream.format("parquet").option("path", output["parquet"])
        where = f"Parquet in {output['parquet']}"
    else:
        writer = as_records(result, output.get("key")).writeStream.format("milepost").options(**sink(pipeline, output))
        where = f"topic {output['topic']}"
    query = writer.option("checkpointLocation", checkpoint).outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = sum(progress["numInputRows"] for progress in query.recentProgress)
    return f"{rows:,} records streamed to {where}"


def _ensure_same_stream(disk: Disk, checkpoint: str, target: str) -> None:
    """Spark's file sink takes the first batches of another stream for batches that it has, and drops them."""
    if disk.exists(f"{target}/{METADATA}") and not disk.exists(f"{checkpoint}/metadata"):
        raise InvalidArgument(
            f"{target}: written by a stream whose checkpoint is not in {checkpoint}; move the directory away, or bring the checkpoint back"
        )
