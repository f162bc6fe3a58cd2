"""Makes Spark know `format("milepost")`: it imports every module whose name begins with pyspark_ and registers its DefaultSource."""

from milepost.spark.source import MilepostDataSource as DefaultSource

__all__ = ["DefaultSource"]
