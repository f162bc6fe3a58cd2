"""The same options on the same log: spark-sql-kafka from the broker, milepost from the broker and from its files, row for row.

The broker is Kafka 4.3.0, and milepost's own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import milepost
from tests.interop.kraft_broker import KraftBroker
from tests.spark.connector import need_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka

FIRST_TIME = 1_700_000_000_000
NEVER = 4_000_000_000_000  # markers have the time of day


@dataclass(frozen=True)
class Running:
    bootstrap: str
    data: Path


@pytest.fixture(scope="module", params=["kafka-4.3.0", "milepost"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    need_connector()
    directory = tmp_path_factory.mktemp("broker")
    if request.param == "milepost":
        with milepost.Broker(directory / "data") as own:
            fill(own.bootstrap_servers)
            yield Running(own.bootstrap_servers, directory / "data")
        return
    with KraftBroker(directory) as started:
        fill(started.bootstrap)
        yield Running(started.bootstrap, started.data)


def fill(bootstrap: str) -> None:
    """One topic: every codec, nulls, headers, times that go back and forth, transactions of all fates, several segments."""
    servers = {"bootstrap.servers": bootstrap}
    admin = AdminClient(servers)
    settings = {"retention.ms": "-1", "segment.bytes": "1048576"}
    for created in admin.create_topics([NewTopic("m", 2, 1, config=settings)]).values():
        created.result()
    source = random.Random(3)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({**servers, "compression.type": codec, "linger.ms": 5})
        for number in range(300):
            value = None if number % 17 == 0 else source.randbytes(source.randint(0, 2000))
            headers = [("a", b"1"), ("a", None)] if number % 3 == 0 else None
            moment = FIRST_TIME + source.randint(0, 5000)
            key = None if number % 5 == 0 else b"k%d" % number
            producer.produce("m", value, key, number % 2, timestamp=moment, headers=headers)
        producer.flush()
    for number, fate in enumerate(("commit", "abort", "commit", "abort", "open")):
        # The open one stays open for longer than the tests take.
        producer = Producer({**servers, "transactional.id": f"x{number}", "transaction.timeout.ms": 900_000})
        producer.init_transactions()
        producer.begin_transaction()
        for each in range(20):
            producer.produce("m", b"%d of %d" % (each, number), b"k", each % 2, timestamp=FIRST_TIME + 6000 + number)
        producer.flush()
        if fate == "open":
            break
        if fate == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        # It is answered before the marker is written, and the next of the same name is told to wait for that.
        Producer({**servers, "transactional.id": f"x{number}"}).init_transactions()
    # Before the broker is gone, which the client would complain about.
    del admin, producer


CONNECTOR, FILES, WIRE = "spark-sql-kafka", "milepost over files", "milepost over the wire"


def rows(spark: SparkSession, broker: Running, way: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    reader = spark.read.format("kafka" if way == CONNECTOR else "milepost").option("includeHeaders", "true")
    if way == FILES:
        # The checkpoint of the high watermark comes every five seconds; nobody else writes here.
        reader = reader.option("path", str(broker.data)).option("endOfLog", "logEnd")
    else:
        reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
    asked = {**({} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": "m"}), **options}
    return [tuple(row) for row in reader.options(**asked).load().orderBy("partition", "offset").collect()]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1600),
        ({"kafka.isolation.level": "read_committed"}, 1540),
        ({"startingTimestamp": str(FIRST_TIME + 4990), "endingTimestamp": str(FIRST_TIME + 5999)}, None),
        ({"startingOffsets": '{"m":{"0":100,"1":-2}}', "endingOffsets": '{"m":{"0":300,"1":-1}}', "minPartitions": "5"}, None),
        ({"startingTimestamp": str(NEVER), "startingOffsetsByTimestampStrategy": "latest"}, 0),
        ({"assign": '{"m":[1]}', "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": "50"}, 770),
        (
            {
                "subscribePattern": "[k-n]",
                "startingOffsetsByTimestamp": f'{{"m":{{"0":{FIRST_TIME + 4000},"1":{FIRST_TIME + 6001}}}}}',
                "endingOffsetsByTimestamp": f'{{"m":{{"0":{FIRST_TIME + 6003},"1":{NEVER}}}}}',
            },
            None,
        ),
    ],
)
def test_rows_are_the_same(spark: SparkSession, broker: Running, options: dict[str, str], count: int | None) -> None:
    theirs = rows(spark, broker, CONNECTOR, options)
    assert rows(spark, broker, FILES, options) == theirs
    assert rows(spark, broker, WIRE, options) == theirs
    assert count is None or len(theirs) == count


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"m":{"0":100}}'},
        {"startingTimestamp": str(NEVER)},
        {"startingOffsets": '{"m":{"0":300,"1":0}}', "endingOffsets": '{"m":{"0":200,"1":-1}}'},
        {"startingTimestamp": str(FIRST_TIME + 4999), "endingTimestamp": str(FIRST_TIME)},
    ],
)
def test_mistakes_are_mistakes_for_all(spark: SparkSession, broker: Running, options: dict[str, str]) -> None:
    for way in (CONNECTOR, FILES, WIRE):
        with pytest.raises(Exception, match=r"."):  # each says it in its own words, in one of Spark's classes
            rows(spark, broker, way, options)
