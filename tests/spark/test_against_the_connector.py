"""The same options on the same log of Kafka 4.3.0: spark-sql-kafka from the broker, milepost from its files, row for row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.kraft_broker import KraftBroker
from tests.spark.connector import need_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka

FIRST_TIME = 1_700_000_000_000
NEVER = 4_000_000_000_000  # markers have the time of day


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    """One topic: every codec, nulls, headers, times that go back and forth, transactions of all fates, several segments."""
    need_connector()
    with KraftBroker(tmp_path_factory.mktemp("kafka")) as started:
        servers = {"bootstrap.servers": started.bootstrap}
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
            producer = Producer({**servers, "transactional.id": f"x{number}"})
            producer.init_transactions()
            producer.begin_transaction()
            for each in range(20):
                producer.produce("m", b"%d of %d" % (each, number), b"k", each % 2, timestamp=FIRST_TIME + 6000 + number)
            producer.flush()
            if fate == "commit":
                producer.commit_transaction()
            elif fate == "abort":
                producer.abort_transaction()
        yield started
        del admin


def rows(spark: SparkSession, broker: KraftBroker, name: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    reader = spark.read.format(name).option("subscribe", "m").option("includeHeaders", "true")
    if name == "kafka":
        reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
    else:
        # The checkpoint of the high watermark comes every five seconds; nobody else writes here.
        reader = reader.option("path", str(broker.data)).option("endOfLog", "logEnd")
    return [tuple(row) for row in reader.options(**options).load().orderBy("partition", "offset").collect()]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1600),
        ({"kafka.isolation.level": "read_committed"}, 1540),
        ({"startingTimestamp": str(FIRST_TIME + 4990), "endingTimestamp": str(FIRST_TIME + 5999)}, None),
        ({"startingOffsets": '{"m":{"0":100,"1":-2}}', "endingOffsets": '{"m":{"0":300,"1":-1}}', "minPartitions": "5"}, None),
        ({"startingTimestamp": str(NEVER), "startingOffsetsByTimestampStrategy": "latest"}, 0),
    ],
)
def test_rows_are_the_same(spark: SparkSession, broker: KraftBroker, options: dict[str, str], count: int | None) -> None:
    theirs = rows(spark, broker, "kafka", options)
    assert rows(spark, broker, "milepost", options) == theirs
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
def test_mistakes_are_mistakes_for_both(spark: SparkSession, broker: KraftBroker, options: dict[str, str]) -> None:
    for name in ("kafka", "milepost"):
        with pytest.raises(Exception, match=r"."):  # each says it in its own words, in one of Spark's classes
            rows(spark, broker, name, options)
