"""A small table as one Parquet file, put in its place as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.files import Disk, make_directories, replace_file

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    types = {
        "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(), "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])


def write_table(disk: Disk, path: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(columns))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    make_directories(disk, path.rpartition("/")[0] or ".")
    replace_file(disk, path, sink.getvalue().to_pybytes())
