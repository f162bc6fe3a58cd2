"""Page visits as a streaming table, and how often each page is visited as a view over it."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = "user string, url string, at timestamp"


@dp.table
def visits() -> DataFrame:
    spark = SparkSession.active()
    log = spark.readStream.format("milepost").option("path", spark.conf.get("milepost.data")).option("subscribe", "page_visits")
    records = log.option("startingOffsets", "earliest").load()
    return records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("visit")).select("visit.*")


@dp.materialized_view
def pages() -> DataFrame:
    return SparkSession.active().read.table("visits").groupBy("url").agg(f.count("*").alias("visits"))
