"""What is killed: each kind of write and job once, small, with ids that can be counted afterwards.

A scenario prepares a place (a directory), runs through Spark as often as it takes, and tells which ids are there in the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import milepost.spark as jobs
from milepost.inspect.verify.verify import verify
from tests.spark.killed.steps import Step
from tests.spark.logs import Batch, End, plain_scan, write_log
from tests.spark.rows import read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDS = range(300)
SINK = {"topic": "t", "partitions": "3", "segmentBytes": "2k", "kafka.batch.size": "500"}
SMALL_COMMITS = 3000
"""Bytes of log in one commit of an export: two commits."""


@dataclass(frozen=True)
class Scenario:
    prepare: Callable[[Path], None]
    run: Callable[[SparkSession, Path], None]
    found: Callable[[Path], Counter[int]]
    in_tasks: tuple[Step, ...]
    in_driver: tuple[Step, ...]
    """In the driver, or in the process that commits for it."""
    at_least_once: bool = False


# What is there before.


def nothing(place: Path) -> None:
    place.mkdir()


def json_files(place: Path) -> None:
    """Three files: a stream takes one per batch."""
    nothing(place)
    (place / "source").mkdir()
    for number in range(3):
        lines = (json.dumps({"key": str(each), "value": str(each)}) + "\n" for each in IDS[number::3])
        (place / "source" / f"{number}.json").write_text("".join(lines))


def log(place: Path) -> None:
    """A topic of two partitions with every id once, committed; and what was aborted, which nobody must see."""
    for partition in (0, 1):
        own = IDS[partition::2]
        # Of two hours, so that a commit of an export has several files.
        steps = [Batch(tuple(b"%d" % each for each in own[at : at + 5]), (0, 3_600_000)) for at in range(0, len(own), 5)]
        write_log(place / "data", "t", partition, [*steps, Batch((b"-1",), producer=7), End(7, False)], segment_bytes=1500)


def log_with_keys(place: Path) -> None:
    """Every key three times; the ids are the newest values."""
    for partition in (0, 1):
        own = IDS[partition::2]
        steps = [
            Batch(tuple(b"%d" % (each - age) for each in part), keys=tuple(b"k%d" % each for each in part))
            for age in (2000, 1000, 0)
            for at in range(0, len(own), 5)
            for part in [own[at : at + 5]]
        ]
        write_log(place / "data", "t", partition, steps, segment_bytes=1500)


# What is run.


def rows(spark: SparkSession) -> Any:
    return spark.range(0, len(IDS), 1, 3).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")


def batch(spark: SparkSession, place: Path) -> None:
    options = {**SINK, "path": str(place / "data"), "commitId": "mine:0"}
    rows(spark).write.format("milepost").mode("append").options(**options).save()


def stream(spark: SparkSession, place: Path, **where: str) -> None:
    source = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", "1").json(str(place / "source"))
    options = {**SINK, **(where or {"path": str(place / "data")}), "checkpointLocation": str(place / "checkpoint")}
    query = source.writeStream.format("milepost").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()


def bootstrap(place: Path) -> str:
    return (place / "bootstrap").read_text()


def wire_batch(spark: SparkSession, place: Path) -> None:
    options = {**SINK, "kafka.bootstrap.servers": bootstrap(place)}
    rows(spark).write.format("milepost").mode("append").options(**options).save()


def wire_stream(spark: SparkSession, place: Path) -> None:
    stream(spark, place, **{"kafka.bootstrap.servers": bootstrap(place)})


def load(spark: SparkSession, place: Path) -> None:
    arguments = {"key": "key", "value": "value", "partitions": 3, "segment_bytes": 2048}
    jobs.load(
        spark, str(place / "source"), str(place / "data"), "t", format="json", schema="key string, value string", **arguments
    )


def export(spark: SparkSession, place: Path, format: str = "parquet") -> None:
    jobs.export(spark, str(place / "data"), "t", str(place / "out"), format=format, commit_bytes=SMALL_COMMITS)


def export_delta(spark: SparkSession, place: Path) -> None:
    export(spark, place, "delta")


def compact(spark: SparkSession, place: Path) -> None:
    jobs.compact(spark, str(place / "data"), "t", config={"segment.bytes": 4000})


# What came of it.


def in_log(place: Path) -> Counter[int]:
    assert verify(str(place / "data")).findings == []
    return Counter(int(row["value"]) for row in read_rows({"path": place / "data", "subscribe": "t"}))


def on_broker(place: Path) -> Counter[int]:
    return Counter(int(row["value"]) for row in read_rows({"kafka.bootstrap.servers": bootstrap(place), "subscribe": "t"}))


def in_parquet(place: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for path in (place / "out").glob("date=*/hour=*/*.parquet"):
        found.update(map(int, pq.read_table(path, columns=["value"], partitioning=None).column("value").to_pylist()))
    assert list((place / "out" / "_milepost" / "staging").iterdir()) == []
    return found


def in_delta(place: Path) -> Counter[int]:
    import deltalake

    table = deltalake.DeltaTable(str(place / "out")).to_pyarrow_table(columns=["value"])
    return Counter(map(int, table.column("value").to_pylist()))


def compacted(place: Path) -> Counter[int]:
    assert verify(str(place / "data")).findings == []
    return Counter(int(row["value"]) for partition in (0, 1) for row in plain_scan(place / "data" / f"t-{partition}").committed)


# Where it dies.

SPARK = "milepost.spark"
STAGING = (
    Step(f"{SPARK}.sink.staging:Stage.append", call=2),
    Step(f"{SPARK}.sink.staging:Stage.finish"),
    Step(f"{SPARK}.sink.task:stage", after=True),
)
MANAGER = "milepost.log.manager:LogManager"
COMMITTING = (
    Step(f"{SPARK}.sink.commit:Commit.run"),
    Step(f"{SPARK}.sink.commit:Commit._plan", after=True),
    Step(f"{MANAGER}.create", call=2),
    Step(f"{SPARK}.sink.commit:append", call=3),
    Step(f"{SPARK}.sink.commit:Commit._note"),
    Step(f"{SPARK}.sink.commit:Commit._note", after=True),
    Step(f"{MANAGER}.shutdown", after=True),
    Step(f"{SPARK}.sink.commit:Commit.run", after=True),
)
PRODUCING = (Step("milepost.client.producer:Producer.send_batches", call=2), Step(f"{SPARK}.sink.wire:produce", after=True))
EXPORTING = (
    Step(f"{SPARK}.jobs.export_task:_File.flush"),
    Step(f"{SPARK}.jobs.export_task:_Exporter._close", after=True),
    Step(f"{SPARK}.jobs.export_task:_Exporter.run", after=True),
)
PUBLISHING = (
    Step(f"{SPARK}.jobs.export_state:ExportState.write"),
    Step(f"{SPARK}.jobs.export_state:ExportState.write", after=True),
    # The first is that of the commit's own file.
    Step("milepost.files:Disk.rename", call=2, after=True),
    Step(f"{SPARK}.jobs.export_state:ExportState.publish", after=True),
    Step(f"{SPARK}.jobs.export_state:ExportState.sweep", call=2),
    Step(f"{SPARK}.jobs.export_state:ExportState.write", call=2, after=True),
)
ADDING = tuple(Step(f"{SPARK}.jobs.export:add_to_table", call, after) for call in (1, 2) for after in (False, True))
REWRITING = (
    Step(f"{SPARK}.log_files.split:FileSplit.read"),
    Step(f"{SPARK}.jobs.compact_task:_GroupCleaner._copy", call=2),
    Step(f"{SPARK}.jobs.compact_task:_GroupCleaner.run", after=True),
)
SWAPPING = (
    Step(f"{SPARK}.jobs.compact:_Compaction._find_newest"),
    Step(f"{SPARK}.jobs.compact:_Compaction._find_newest", after=True),
    Step(f"{SPARK}.jobs.compact:_Compaction._swap", call=2),
    Step("milepost.log.log:Log.replace_segments"),
    Step("milepost.log.log:Log.replace_segments", after=True),
    Step(f"{MANAGER}.write_cleaner_offset"),
    Step(f"{MANAGER}.write_cleaner_offset", after=True),
    Step(f"{MANAGER}.shutdown"),
)
SCENARIOS = {
    "batch": Scenario(nothing, batch, in_log, STAGING, COMMITTING),
    "stream": Scenario(json_files, stream, in_log, STAGING, COMMITTING),
    "wire-batch": Scenario(nothing, wire_batch, on_broker, PRODUCING, (), at_least_once=True),
    "wire-stream": Scenario(json_files, wire_stream, on_broker, PRODUCING, (), at_least_once=True),
    "load": Scenario(json_files, load, in_log, STAGING, (Step(f"{SPARK}.jobs.load:make_topic", after=True), *COMMITTING)),
    "export": Scenario(log, export, in_parquet, EXPORTING, PUBLISHING),
    "export-delta": Scenario(log, export_delta, in_delta, EXPORTING[:1], (*PUBLISHING, *ADDING)),
    "compact": Scenario(log_with_keys, compact, compacted, REWRITING, SWAPPING),
}
