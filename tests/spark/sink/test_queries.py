"""The sink through Spark: a batch write, and a stream that is stopped and goes on."""

from __future__ import annotations

import pytest


def test_batch_write_and_stream_write_are_read_back(spark, tmp_path):
    data, source, checkpoint = tmp_path / "data", tmp_path / "source", tmp_path / "checkpoint"
    frame = spark.range(1000).selectExpr("cast(id as string) as key", "concat('value ', id) as value")
    frame.repartition(3).write.format("milepost").mode("append").option("path", str(data)).option("topic", "t").option(
        "partitions", "4"
    ).save()
    found = spark.read.format("milepost").option("path", str(data)).option("subscribe", "t").load()
    assert found.selectExpr("cast(key as string) as key").distinct().count() == 1000
    assert found.select("partition").distinct().count() == 4

    def drain() -> None:
        stream = spark.readStream.schema("value string").json(str(source))
        writer = stream.writeStream.format("milepost").option("path", str(data)).option("topic", "s")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    for number in range(2):
        spark.range(number * 10, number * 10 + 10).selectExpr("cast(id as string) as value").coalesce(1).write.mode(
            "append"
        ).json(str(source))
        drain()
    drain()
    rows = spark.read.format("milepost").option("path", str(data)).option("subscribe", "s").load()
    assert sorted(int(row.value) for row in rows.select(rows.value.cast("string").alias("value")).collect()) == list(range(20))


def test_wrong_columns_are_told_in_one_sentence(spark, tmp_path):
    with pytest.raises(Exception, match="a column value is needed"):
        spark.range(1).write.format("milepost").mode("append").option("path", str(tmp_path / "d")).option("topic", "t").save()
