"""What a query gives, read in this process and without a JVM: planned, pickled, unpickled and read, as Spark would do it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from milepost.spark.columns import Columns
from milepost.spark.options import SourceOptions
from milepost.spark.reader import MilepostReader

Row = dict[str, Any]
ALL = Columns("records", ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "bad_ts"))


def read_rows(options: Mapping[str, object], columns: Columns | None = None) -> list[Row]:
    """The rows by partition and offset; timestamps as epoch milliseconds."""
    rows = [row for task in read_tasks(options, columns) for row in task]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"])) if columns is None else rows


def read_tasks(options: Mapping[str, object], columns: Columns | None = None) -> list[list[Row]]:
    parsed = SourceOptions.parse({name: str(value) for name, value in options.items()}, streaming=False)
    reader = MilepostReader(parsed, columns or ALL)
    return [
        # Row by row at once: the buffers behind a batch are used again for the next one.
        [plain(row) for batch in reader.read(pickle.loads(pickle.dumps(part))) for row in to_rows(batch)]
        for part in reader.partitions()
    ]


def to_rows(batch: Any) -> list[Row]:
    import pyarrow as pa

    names = batch.schema.names
    arrays = [
        array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array for array in (batch.column(name) for name in names)
    ]
    return [dict(zip(names, values, strict=True)) for values in zip(*(array.to_pylist() for array in arrays), strict=True)]


def plain(row: Row) -> Row:
    if row.get("timestamp") is not None:
        row["timestamp"] //= 1000
    if row.get("headers") is not None:
        row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
    return row
