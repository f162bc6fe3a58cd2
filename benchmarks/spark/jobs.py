"""The bulk jobs: how fast, and against what Spark does with the rows of the source.

    python -m benchmarks.spark.jobs [--rows 5000000] [--rounds 3] [--slots 2]

The log is made by the load job itself: rows of 100 bytes in two partitions, 256 MB segments. Export is compared with `write.parquet` of the
same rows read through the source, with the same columns and codec, plain and by date and hour. Rounds alternate; medians are shown.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.cost import compare, median

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "page_visits"
FIRST_TIME = 1_700_000_000_000
VALUE = (
    'concat(\'{"id":\', id, \',"page":"/page/\', hex(xxhash64(id)), \'","agent":"\', '
    "substr(sha2(cast(id AS string), 256), 1, 40), '\"}')"
)


def visits(spark: SparkSession, rows: int, slots: int) -> DataFrame:
    return spark.range(0, rows, 1, 4 * slots).selectExpr(
        f"{VALUE} AS value", "lpad(cast(id % 10000 AS string), 16, '0') AS key", f"timestamp_millis({FIRST_TIME} + id) AS time"
    )


def source(spark: SparkSession, data: str) -> DataFrame:
    return spark.read.format("milepost").option("path", data).option("subscribe", TOPIC).option("includeHeaders", "true").load()


def show(title: str, wanted: str, peers: dict[str, Callable[[], object]], rounds: int, amount: float, unit: str) -> None:
    costs = {name: median(found) for name, found in compare(peers, rounds).items()}
    print(f"\n{title}   (wanted: {wanted})")
    base = next(iter(costs.values()))
    for name, cost in costs.items():
        ratio = "" if cost is base else f"   {cost.wall / base.wall:.2f}x the time of {next(iter(costs))}"
        print(f"  {name:<42} {cost.wall:7.2f} s  {cost.cpu:7.2f} cpu-s  {amount / cost.wall:8.2f} {unit}{ratio}")


def run(spark: SparkSession, directory: Path, rows: int, rounds: int, slots: int) -> None:
    import milepost.spark as jobs

    data, names = str(directory / "data"), itertools.count()

    def load(path: str) -> None:
        frame = visits(spark, rows, slots)
        jobs.load(
            spark, frame, path, TOPIC, key="key", value="value", timestamp="time", partitions=2, segment_bytes=256 << 20, name="b"
        )

    def load_elsewhere() -> None:
        target = directory / f"loaded{next(names)}"
        load(str(target))
        shutil.rmtree(target)

    load(data)
    size = sum(path.stat().st_size for path in Path(data).rglob("*.log"))
    print(f"{rows:,} rows, {size / 1e9:.2f} GB of log, {slots} slots")

    def export() -> None:
        target = directory / f"export{next(names)}"
        jobs.export(spark, data, TOPIC, str(target))
        shutil.rmtree(target)

    def written(by_hour: bool) -> None:
        target = directory / f"written{next(names)}"
        frame, writer = source(spark, data), None
        if by_hour:
            writer = frame.selectExpr("*", "to_date(timestamp) AS date", "hour(timestamp) AS hour").write.partitionBy(
                "date", "hour"
            )
        (writer or frame.write).parquet(str(target))
        shutil.rmtree(target)

    peers = {
        "export": export,
        "write.parquet": lambda: written(False),
        "write.partitionBy(date, hour).parquet": lambda: written(True),
    }
    show("export to Parquet", "write.parquet takes at least 3x the time", peers, rounds, rows / 1e6, "M rows/s")
    checks = {
        "verify": lambda: jobs.verify(spark, data),
        "verify, headers only": lambda: jobs.verify(spark, data, headers_only=True),
    }
    show("verify", "at least 1.5 GB/s", checks, rounds, size / 1e9, "GB/s")
    show("stats", "-", {"stats": lambda: jobs.stats(spark, data)}, rounds, size / 1e9, "GB/s")
    show("reindex", "-", {"reindex": lambda: jobs.reindex(spark, data)}, rounds, size / 1e9, "GB/s")
    show("load of 100 B rows", "-", {"load": load_elsewhere}, 1, rows / 1e6, "M rows/s")

    def backfill() -> None:
        target = directory / f"copied{next(names)}"
        jobs.backfill(spark, data, TOPIC, str(target), "again")
        shutil.rmtree(target)

    def compact() -> None:
        target = directory / f"compacted{next(names)}"
        shutil.copytree(data, target)
        jobs.compact(spark, str(target), TOPIC)
        shutil.rmtree(target)

    show("backfill", "-", {"backfill": backfill}, 1, rows / 1e6, "M rows/s")
    show("compact, with a copy of the log before", "-", {"compact": compact}, 1, size / 1e9, "GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--directory", help="where the data goes; a temporary directory by default")
    arguments = parser.parse_args()
    from milepost.spark.spark_session import session

    with tempfile.TemporaryDirectory(prefix="milepost-jobs-", dir=arguments.directory) as name:
        directory = Path(name)
        conf = {
            "spark.log.level": "ERROR", "spark.driver.memory": "2g", "spark.local.dir": str(directory / "local"),
            "spark.sql.shuffle.partitions": str(arguments.slots), "spark.sql.session.timeZone": "UTC",
        }  # fmt: skip
        spark = session(f"local[{arguments.slots}]", "milepost benchmark", conf)
        run(spark, directory, arguments.rows, arguments.rounds, arguments.slots)
        spark.stop()


if __name__ == "__main__":
    main()
