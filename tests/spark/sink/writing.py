"""Rows that are written by the sink, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from milepost.files import Disk
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import StagedFile, make_staging
from milepost.spark.sink.task import stage
from tests.spark.rows import read_rows

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(**columns: Any) -> list[pa.RecordBatch]:
    types = {"headers": HEADER_TYPE, "partition": pa.int32(), "time": pa.timestamp("us", "UTC")}
    return [pa.RecordBatch.from_pydict({name: pa.array(column, types.get(name)) for name, column in columns.items()})]


def options(path: Path, **given: Any) -> SinkOptions:
    return SinkOptions.parse({"path": str(path), **{name: str(value) for name, value in given.items()}})


def staged(batches: list[pa.RecordBatch], chosen: SinkOptions, job: str, task: int, attempt: str) -> tuple[StagedFile, ...]:
    """As the driver and one of its tasks do it."""
    assert chosen.path is not None
    make_staging(Disk(), chosen.path, chosen.staging)
    return stage(batches, chosen, job, task, attempt)


def read(path: Path, topic: str = "t") -> list[tuple[Any, ...]]:
    found = read_rows({"path": path, "subscribe": topic})
    return [(row["partition"], row["offset"], row["key"], row["value"], row["headers"]) for row in found]
