"""Reading a topic over the wire into Spark: `format("milepost")` against spark-sql-kafka, from Kafka and from milepost's broker.

    python -m benchmarks.spark.wire [--rows 5000000] [--rounds 5] [--slots 2]

Both brokers hold the same rows, with their default settings. Rounds alternate; the best and the median of them are shown.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker.brokers import Broker, Kafka, Milepost
from benchmarks.spark.connector import spark_session
from benchmarks.spark.read import PARTITIONS, connector, noop, parsed, produce, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "plain"


def ours(spark: SparkSession, broker: Broker) -> DataFrame:
    reader = spark.read.format("milepost").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", TOPIC)
    return reader.load()


def main() -> None:
    given = parsed(__doc__)
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as scratch:
        kafka, milepost = Kafka(Path(scratch, "kafka")), Milepost(Path(scratch, "milepost"))
        try:
            for broker in (kafka, milepost):
                broker.start()
                produce(broker, TOPIC, given.rows, given.size, "none")
            run(kafka, milepost, given, Path(scratch))
        finally:
            kafka.kill()
            milepost.kill()


def run(kafka: Broker, milepost: Broker, given: argparse.Namespace, scratch: Path) -> None:
    spark = spark_session(given.slots, scratch)
    print(f"{given.rows} rows of {given.size} B in {PARTITIONS} partitions, local[{given.slots}], Spark {spark.version}")
    report(
        "over the wire, all columns",
        "1.3x wall",
        given.rows,
        {
            "connector": lambda: noop(connector(spark, kafka, TOPIC)),
            "milepost": lambda: noop(ours(spark, kafka)),
            "connector, our broker": lambda: noop(connector(spark, milepost, TOPIC)),
            "milepost, our broker": lambda: noop(ours(spark, milepost)),
        },
        given.rounds,
    )
    spark.stop()


if __name__ == "__main__":
    main()
