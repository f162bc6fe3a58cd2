"""Writing rows to topic directories, and how long a trigger of a stream takes.

    python -m benchmarks.spark.sink [--rows 5000000] [--rounds 3] [--slots 2]

The rows, of 100 bytes with keys of 16, come out of `spark.range`; what making them costs is shown as `noop`. The stream reads the log that
was written in triggers of 100,000 rows and does nothing with them; its checkpoint is in memory (`/dev/shm`), and the first triggers, in
which workers start, are left out.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.jobs import show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "visits"
PARTITIONS = 2
TRIGGER_ROWS = 100_000
WARM_UP = 5
WANTED_MS = 400


def rows_of(spark: SparkSession, rows: int, slots: int) -> DataFrame:
    return spark.range(0, rows, 1, 4 * slots).selectExpr(
        "lpad(cast(id AS string), 16, '0') AS key", "rpad(cast(id AS string), 100, 'visit of a page ') AS value"
    )


def write(frame: DataFrame, data: Path) -> None:
    frame.write.format("milepost").mode("append").option("path", str(data)).option("topic", TOPIC).option(
        "partitions", PARTITIONS
    ).save()


def triggers(spark: SparkSession, data: Path, checkpoint: str) -> list[int]:
    """Milliseconds of each trigger of a query over the whole log."""
    stream = (
        spark.readStream.format("milepost")
        .option("path", str(data))
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", TRIGGER_ROWS)
        .load()
    )
    query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress if progress["numInputRows"]]


def run(spark: SparkSession, directory: Path, rows: int, rounds: int, slots: int) -> None:
    names = itertools.count()

    def sink() -> None:
        target = directory / f"written{next(names)}"
        write(rows_of(spark, rows, slots), target)
        shutil.rmtree(target)

    peers = {"sink": sink, "noop": lambda: rows_of(spark, rows, slots).write.format("noop").mode("overwrite").save()}
    show("rows of 100 B to topic directories", "1 M rows/s", peers, rounds, rows / 1e6, "M rows/s")
    data = directory / "data"
    write(rows_of(spark, rows, slots), data)
    with tempfile.TemporaryDirectory(prefix="milepost-sink-", dir="/dev/shm") as checkpoint:
        taken = triggers(spark, data, checkpoint)[WARM_UP:]
    print(f"\ntriggers of {TRIGGER_ROWS} rows   (wanted: {WANTED_MS} ms at most)")
    print(f"  {len(taken)} triggers, median {statistics.median(taken):.0f} ms, best {min(taken)} ms, longest {max(taken)} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    given = parser.parse_args()
    from milepost.spark.spark_session import session

    with tempfile.TemporaryDirectory(prefix="milepost-sink-") as name:
        conf = {"spark.log.level": "ERROR", "spark.driver.memory": "2g", "spark.local.dir": f"{name}/local"}
        spark = session(f"local[{given.slots}]", "milepost benchmark", conf)
        run(spark, Path(name), given.rows, given.rounds, given.slots)
        spark.stop()


if __name__ == "__main__":
    main()
