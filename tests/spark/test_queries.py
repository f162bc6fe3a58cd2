"""Whole queries through the JVM: what Spark makes of the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import milepost.spark
from milepost.codec.compression import Codec
from tests.spark.logs import NOW, Batch, End, many_batches, plain_scan, write_log
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """t-0: 300 records in several segments and tasks; u-0: transactions, headers and codecs."""
    root = tmp_path_factory.mktemp("data")
    write_log(root, steps=list(many_batches(100)), segment_bytes=4000, interval=0)
    steps = [
        Batch((b"a", None), headers=(("h", b"1"),), codec=Codec.ZSTD),
        Batch((b"x",), producer=7),
        End(7, commit=False),
        Batch((b"b",), producer=7, codec=Codec.LZ4),
        End(7, commit=True),
        Batch((b"c",), (None,), magic=0),
    ]
    write_log(root, "u", 0, steps)
    return root


def load(spark: SparkSession, data: Path, topic: str = "t", **options: object) -> DataFrame:
    reader = spark.read.format("milepost").option("path", str(data)).option("subscribe", topic)
    return reader.options(**{name.replace("__", "."): str(value) for name, value in options.items()}).load()


def test_schema_is_the_connectors(spark: SparkSession, data: Path) -> None:
    assert load(spark, data, includeHeaders=True).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )


def test_rows_are_those_of_the_log_in_as_many_tasks_as_asked_for(spark: SparkSession, data: Path) -> None:
    frame = load(spark, data, maxBytesPerPartition=3000)
    assert frame.rdd.getNumPartitions() >= 5
    rows = frame.selectExpr("offset", "key", "value", "unix_millis(timestamp) ms").orderBy("offset").collect()
    scanned = plain_scan(data / "t-0").rows
    assert [(row.offset, bytes(row.key), bytes(row.value), row.ms) for row in rows] == [
        (row["offset"], row["key"], row["value"], row["timestamp"]) for row in scanned
    ]


def test_headers_nulls_transactions_and_old_formats(spark: SparkSession, data: Path) -> None:
    frame = load(spark, data, "u", includeHeaders=True, kafka__isolation__level="read_committed")
    rows = frame.orderBy("offset").collect()
    assert [(row.offset, row.value and bytes(row.value), row.timestampType) for row in rows] == [
        (0, b"a", 0),
        (1, None, 0),
        (4, b"b", 0),
        (6, b"c", -1),
    ]
    assert [[(each.key, bytes(each.value)) for each in row.headers] if row.headers else None for row in rows] == [
        [("h", b"1")], [("h", b"1")], None, None,
    ]  # fmt: skip
    assert [row.timestamp is None for row in rows] == [False, False, False, True]


def test_schema_of_the_user_prunes_columns(spark: SparkSession, data: Path) -> None:
    frame = (
        spark.read.format("milepost")
        .option("path", str(data))
        .option("subscribe", "t")
        .schema("value binary, offset long")
        .load()
    )
    assert frame.columns == ["value", "offset"]
    assert frame.selectExpr("count(value)", "sum(offset)").collect()[0][:] == (300, 300 * 299 // 2)


def test_helper_reads_columns_and_a_time_slice(spark: SparkSession, data: Path) -> None:
    frame = milepost.spark.read(spark, str(data), "t", columns=("offset",), time=(NOW + 30, NOW + 60))
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(30, 60))


def test_first_rows_come_without_reading_everything(spark: SparkSession, data: Path) -> None:
    assert [row.offset for row in load(spark, data).limit(3).collect()] == [0, 1, 2]


def test_temporary_view_in_sql(spark: SparkSession, data: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW visits USING milepost OPTIONS (path '{data}', subscribe 't')")
    assert spark.sql("SELECT count(*) AS n, max(offset) AS last FROM visits WHERE partition = 0").collect()[0][:] == (300, 299)


def test_loaded_frame_is_a_snapshot_and_a_fresh_one_sees_more(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, steps=list(many_batches(2)))
    frame = load(spark, tmp_path)
    assert frame.count() == 6
    for path in (tmp_path / "t-0").iterdir():
        path.unlink()
    write_log(tmp_path, steps=list(many_batches(3)))
    assert load(spark, tmp_path).count() == 9


def test_empty_log_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path)
    assert load(spark, tmp_path).collect() == []


def test_views(spark: SparkSession, data: Path) -> None:
    batches = load(spark, data, "t,u", view="batches")
    assert batches.where("topic = 't'").selectExpr("count(1)", "sum(record_count)", "bool_and(crc_valid)").collect()[0][:] == (
        100,
        300,
        True,
    )
    codecs = (
        batches.where("topic = 'u'").orderBy("last_offset").select("codec", "magic", "is_control", "is_transactional").collect()
    )
    assert [tuple(row) for row in codecs] == [
        ("zstd", 2, False, False), ("none", 2, False, True), ("none", 2, True, True), ("lz4", 2, False, True), ("none", 2, True, True),
        ("none", 0, False, False),
    ]  # fmt: skip
    segments = load(spark, data, "t", view="segments").orderBy("segment").collect()
    assert len(segments) == len(list((data / "t-0").glob("*.log")))
    assert sum(row.records for row in segments) == 300
    assert [row.is_active for row in segments].count(True) == 1
    assert all(row.size == row.valid_bytes + row.tail_bytes + row.damaged_bytes for row in segments)
    assert load(spark, data, "t", view="files").where("kind = 'segment'").count() == len(segments)


def failure(frame: Any) -> str:
    with pytest.raises(Exception) as caught:
        frame().collect()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is latest, where a batch query would find nothing"),
        ({"subscribePattern": "x"}, "subscribe and subscribePattern are given"),
        ({"startingOffsets": '{"t":{"0":5,"1":0}}'}, "t-1 not subscribed to"),
        ({"endingOffsets": '{"t":{"0":5000}}'}, "data loss: t-0: offsets 0 to 4999 are asked for, and the log holds 0 to 299"),
        ({"startingOffset": "earliest"}, "option startingoffset is unknown; is startingOffsets meant?"),
    ],
)
def test_mistakes_are_told_in_one_sentence(spark: SparkSession, data: Path, options: dict[str, str], sentence: str) -> None:
    assert sentence in failure(lambda: load(spark, data, **options))


def test_damage_names_file_and_byte_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    directory = write_log(tmp_path / "data", steps=list(many_batches(5)))
    (path,) = directory.glob("*.log")
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    assert f"{path}: batch at byte 0: its CRC is wrong" in failure(lambda: load(spark, tmp_path / "data"))
    aside = tmp_path / "aside"
    assert load(spark, tmp_path / "data", mode="quarantine", quarantinePath=aside).count() == 12
    assert len(list(aside.rglob("*.json"))) == 1


def test_pushdown_on_request_reads_less_and_gives_the_same_rows(spark: SparkSession, data: Path) -> None:
    condition = f"offset >= 150 AND timestamp >= timestamp_millis({NOW + 200}) AND partition = 0"
    expected = [row.offset for row in load(spark, data).where(condition).orderBy("offset").collect()]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(spark, data, pushdown=True, maxBytesPerPartition=3000).where(condition)
        tasks = frame.rdd.getNumPartitions()
        found = [row.offset for row in load(spark, data, pushdown=True).where(condition).orderBy("offset").collect()]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert found == expected == list(range(200, 300))
    assert tasks < load(spark, data, maxBytesPerPartition=3000).rdd.getNumPartitions()


# What goes wrong reaches the user as one sentence of ours, without a traceback.


def test_errors_of_ours_come_first_and_short(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "data", "t", 0, list(many_batches(400)))
    data = str(tmp_path / "data")
    reader = spark.read.format("milepost").option("path", data)

    def said(query: Callable[[], object]) -> str:
        with pytest.raises(Exception, match=r"milepost\.errors\.") as raised:
            query()
        text = str(raised.value)
        assert "Traceback" not in text
        assert "UnboundLocalError" not in text
        return text

    assert "option topic is unknown; is subscribe meant?" in said(lambda: reader.option("topic", "t").load().count())
    nowhere = spark.read.format("milepost").option("path", f"{data}/nowhere")
    assert "nowhere: No such file or directory; name a data directory" in said(lambda: nowhere.load().count())
    (tmp_path / "empty").mkdir()
    empty = spark.read.format("milepost").option("path", str(tmp_path / "empty"))
    assert "empty: there is no partition in it; name a data directory" in said(lambda: empty.load().count())
    table = f"TABLE t USING milepost OPTIONS (path '{data}', subscribe 't')"
    assert "read CREATE TEMPORARY VIEW" in said(lambda: spark.sql(f"CREATE {table}"))
    forgotten = "neither path nor kafka.bootstrap.servers is given; if this is a table made by CREATE TABLE … USING milepost: "
    assert forgotten in said(lambda: spark.read.format("milepost").load().count())
    assert forgotten in said(lambda: spark.sql(f"CREATE {table} AS SELECT 'v' AS value"))
    spark.sql(f"CREATE {table.replace('TABLE t', 'TEMPORARY VIEW t_view')}")
    assert spark.sql("SELECT COUNT(*) FROM t_view").collect()[0][0] > 1000

    def stream() -> None:
        source = spark.readStream.format("milepost").option("path", data).option("endingOffsets", "latest").load()
        source.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(PATIENCE)

    assert "endingOffsets cannot be set for a stream" in said(stream)
    capfd.readouterr()
    spark.read.format("milepost").option("path", data).option("maxRecordsPerPartition", 5000).load().limit(1).collect()
    assert "BrokenPipeError" not in capfd.readouterr().err
