"""Whole streaming queries through Spark: available now, restart from a checkpoint, and a stream that goes on."""

from __future__ import annotations

from pathlib import Path

import milepost
from tests.spark.logs import many_batches, write_log


def drain(spark, target: Path, options: dict[str, str]) -> int:
    """One availableNow run into Parquet; how many rows are there then."""
    reader = spark.readStream.format("milepost")
    for name, value in options.items():
        reader = reader.option(name, value)
    writer = reader.load().select("topic", "partition", "offset").writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(target / "checkpoint")).trigger(availableNow=True).start(str(target / "rows"))
    query.awaitTermination()
    return spark.read.parquet(str(target / "rows")).distinct().count()


def test_available_now_goes_on_from_its_checkpoint_over_files(spark, tmp_path):
    data = tmp_path / "data"
    write_log(data, "t", 0, list(many_batches(20)))
    options = {"path": str(data), "subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"}
    assert drain(spark, tmp_path, options) == 60
    write_log(data, "t", 1, list(many_batches(10)))
    assert drain(spark, tmp_path, options) == 90
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert rows.count() == 90


def test_query_moves_from_files_to_a_broker_with_its_checkpoint(spark, tmp_path):
    data = tmp_path / "data"
    write_log(data, "t", 0, list(many_batches(20)))
    common = {"subscribe": "t", "startingOffsets": "earliest"}
    assert drain(spark, tmp_path, {**common, "path": str(data)}) == 60
    write_log(data, "t", 1, list(many_batches(5)))
    with milepost.Broker(data) as running:
        assert drain(spark, tmp_path, {**common, "kafka.bootstrap.servers": running.bootstrap_servers}) == 75
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 75
