"""Reading a topic into Spark: from the broker's own segment files against spark-sql-kafka from the running broker.

    python -m benchmarks.spark.read [--rows 5000000] [--rounds 5] [--slots 2]

Kafka 4.3.0 runs with its default settings and holds two topics of the same rows, one of them in zstd. Both sides read the very same
log: the connector over the wire, milepost from the directory. Rounds alternate; the best and the median of them are shown, with
the ratio to those of the connector.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker.brokers import Broker, Kafka
from benchmarks.spark.connector import spark_session
from benchmarks.spark.cost import best, compare, median

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_TIME = 1_700_000_000_000
PARTITIONS = 2


def produce(broker: Broker, topic: str, rows: int, size: int, codec: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    # The times of the rows lie years back: by default they would be deleted while they are read.
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})]).values():
        created.result()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50, "batch.size": 16_384,
            "queue.buffering.max.messages": 1_000_000, "acks": "1",
        }
    )  # fmt: skip
    source = random.Random(1)
    pages = [f"/page/{source.getrandbits(40):x}".encode() for _ in range(1000)]
    for number in range(rows):
        value = b'{"id":%d,"page":"%s","user":%d,"agent":"' % (number, pages[number % 997], number * 7919 % 100_003)
        value = (value + b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)" * (size // 70 + 1))[
            : size - 2
        ] + b'"}'
        while True:
            try:
                producer.produce(topic, value, b"%016d" % (number % 10_000), number % PARTITIONS, timestamp=FIRST_TIME + number)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def connector(spark: SparkSession, broker: Broker, topic: str, **options: object) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def ours(spark: SparkSession, broker: Broker, topic: str, schema: str | None = None, **options: object) -> DataFrame:
    reader = (
        spark.read.format("milepost").option("path", str(broker.data)).option("subscribe", topic).option("endOfLog", "logEnd")
    )
    reader = reader.options(**{name: str(value) for name, value in options.items()})
    return (reader if schema is None else reader.schema(schema)).load()


def noop(frame: DataFrame) -> None:
    """Every row and every column, and nothing done with them."""
    frame.write.format("noop").mode("overwrite").save()


def report(title: str, wanted: str, rows: int, peers: dict[str, Callable[[], object]], rounds: int) -> None:
    costs = compare(peers, rounds)
    print(f"\n{title}   (wanted: {wanted})")
    print(
        f"  {'':<24} {'best':>8} {'Mrow/s':>7} {'cpu s':>6} {'ratio':>6}   {'median':>8} {'cpu s':>6} {'ratio':>6} {'of cpu':>6}"
    )
    least, middle = best(costs["connector"]), median(costs["connector"])
    for name, found in costs.items():
        low, mid = best(found), median(found)
        print(
            f"  {name:<24} {low.wall:6.2f} s {rows / low.wall / 1e6:7.2f} {low.cpu:6.2f} {least.wall / low.wall:5.2f}x   "
            f"{mid.wall:6.2f} s {mid.cpu:6.2f} {middle.wall / mid.wall:5.2f}x {middle.cpu / max(mid.cpu, 0.01):5.2f}x",
            flush=True,
        )


def bytes_of_slice(broker: Broker, topic: str, start: int, end: int) -> tuple[int, int]:
    """What a plan reads of a slice of time, and how many bytes the batches with its records have."""
    from milepost.files import Disk
    from milepost.inspect.log_file import Damage, LogFile
    from milepost.spark.bounds import batch_ranges
    from milepost.spark.open_transport import open_transport
    from milepost.spark.options import SourceOptions

    given = {
        "path": str(broker.data),
        "subscribe": topic,
        "endOfLog": "logEnd",
        "startingTimestamp": str(start),
        "endingTimestamp": str(end),
    }
    options = SourceOptions.parse(given, streaming=False)
    with open_transport(options) as transport:
        ranges = batch_ranges(options, transport, 0)
        planned = sum(split.size for split in transport.plan(ranges))
    exact = 0
    for each in ranges:
        for path in sorted((broker.data / str(each.partition)).glob("*.log")):
            with LogFile(Disk(), str(path), int(path.stem)) as log:
                exact += sum(
                    found.size
                    for _, found in log.walk()
                    if not isinstance(found, Damage) and found.last_offset >= each.start and found.base_offset < each.end
                )
    return planned, exact


def parsed(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    given = parsed(__doc__)
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as scratch:
        broker = Kafka(Path(scratch))
        broker.start()
        try:
            run(broker, given.rows, given.size, given.rounds, given.slots, Path(scratch))
        finally:
            broker.kill()


def run(broker: Broker, rows: int, size: int, rounds: int, slots: int, scratch: Path) -> None:
    zstd_rows = rows // 2
    produce(broker, "plain", rows, size, "none")
    produce(broker, "packed", zstd_rows, size, "zstd")
    spark = spark_session(slots, scratch)
    print(f"{rows} rows of {size} B in {PARTITIONS} partitions, local[{slots}], Spark {spark.version}, {rounds} rounds")
    report(
        "all columns",
        "2x wall",
        rows,
        {"connector": lambda: noop(connector(spark, broker, "plain")), "milepost": lambda: noop(ours(spark, broker, "plain"))},
        rounds,
    )
    report(
        "the value only",
        "2.5x wall",
        rows,
        {
            "connector": lambda: noop(connector(spark, broker, "plain").select("value")),
            "milepost": lambda: noop(ours(spark, broker, "plain", "value binary")),
        },
        rounds,
    )
    total = "sum(length(value))"
    report(
        total,
        "2x wall",
        rows,
        {
            "connector": lambda: connector(spark, broker, "plain").selectExpr(total).collect(),
            "milepost": lambda: ours(spark, broker, "plain").selectExpr(total).collect(),
            "milepost, value only": lambda: ours(spark, broker, "plain", "value binary").selectExpr(total).collect(),
        },
        rounds,
    )
    report(
        f"zstd, {zstd_rows} rows, all columns",
        "2x wall",
        zstd_rows,
        {"connector": lambda: noop(connector(spark, broker, "packed")), "milepost": lambda: noop(ours(spark, broker, "packed"))},
        rounds,
    )
    start, end = FIRST_TIME + rows // 2, FIRST_TIME + rows // 2 + rows // 100
    where = f"timestamp >= timestamp_millis({start}) AND timestamp < timestamp_millis({end})"
    times = {"startingTimestamp": start, "endingTimestamp": end}
    report(
        "a hundredth of the time",
        "3x wall against WHERE",
        rows // 100,
        {
            "connector": lambda: noop(connector(spark, broker, "plain").where(where)),
            "connector, with times": lambda: noop(connector(spark, broker, "plain", **times)),
            "milepost": lambda: noop(ours(spark, broker, "plain", **times).where(where)),
        },
        rounds,
    )
    planned, exact = bytes_of_slice(broker, "plain", start, end)
    print(f"  bytes read for the slice: {planned}, its batches have {exact}: {planned / exact:.3f}x   (wanted: 1.1x at most)")
    spark.stop()


if __name__ == "__main__":
    main()
