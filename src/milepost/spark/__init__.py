"""Spark over Kafka logs: read, write, stream and maintain them, from segment files or from any broker, without a connector jar.

    spark = milepost.spark.session()
    visits = spark.read.format("milepost").option("path", "data").option("subscribe", "page_visits").load()

The names are looked up when they are first used (see `names`); importing this package loads neither PySpark nor Arrow.
"""

from milepost.spark.names import __dir__ as __dir__
from milepost.spark.names import __getattr__ as __getattr__
