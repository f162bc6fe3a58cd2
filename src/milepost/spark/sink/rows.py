"""The columns of a sink, by the connector's rules, as one Arrow table with fixed names and types.

| column | types | rule |
|---|---|---|
| value | string, binary | must be there; null is a tombstone |
| key | string, binary | null: no key |
| headers | array of struct(key string, value binary) | |
| topic | string | needed unless the option topic is given, which goes first; null is an error |
| partition | int | goes before the key; null: by the key |
| the one of `timestampColumn` | timestamp | null: the time of the write |

Other columns are ignored, as the connector does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.errors import InvalidArgument
from milepost.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

BYTES = ("string", "binary")
ALLOWED = {"value": BYTES, "key": BYTES, "topic": ("string",), "partition": ("int",)}
HEADERS = "array<struct<key:string,value:binary>>"


def check_columns(fields: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """(name, type as Spark writes it) of a DataFrame that is to be written."""
    types = {name.lower(): kind.lower() for name, kind in fields}
    if "value" not in types:
        raise InvalidArgument(f"a column value is needed, of type string or binary; there are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise InvalidArgument("to which topic? give the option topic, or a column topic")
    for name, allowed in ALLOWED.items():
        if name in types and types[name] not in allowed:
            raise InvalidArgument(f"column {name} is {types[name]}; {' or '.join(allowed)} is expected: cast it")
    if "headers" in types and types["headers"] != HEADERS:
        raise InvalidArgument(f"column headers is {types['headers']}; {HEADERS} is expected")
    named = options.timestamp_column
    if named is not None and types.get(named.lower()) not in ("timestamp", "timestamp_ntz"):
        found = types.get(named.lower(), "not there")
        raise InvalidArgument(f"timestampColumn is {named}, which is {found}; a column of type timestamp is expected")


def normalised(batches: Sequence[pa.RecordBatch], options: SinkOptions, now_ms: int) -> pa.Table:
    """topic (string), partition (int32, null: by key), key, value (binary), timestamp (int64 ms), headers (null without a column)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches(batches).combine_chunks()
    names = {name.lower(): name for name in table.column_names}
    count = table.num_rows

    def column(name: str) -> pa.ChunkedArray | None:
        return table.column(names[name]) if name in names else None

    value = column("value")
    assert value is not None, "checked when the query was planned"
    topic = pa.repeat(options.topic, count) if options.topic is not None else column("topic")
    assert topic is not None
    if topic.null_count:
        raise InvalidArgument("a row has no topic: column topic is null, and the option topic is not given")
    key, partition, headers = column("key"), column("partition"), column("headers")
    if options.timestamp_column is None:
        timestamp = pa.repeat(pa.scalar(now_ms, pa.int64()), count)
    else:
        times = column(options.timestamp_column.lower())
        assert times is not None
        in_ms = pc.divide(times.cast(pa.timestamp("us")).cast(pa.int64()), 1000)
        timestamp = pc.fill_null(in_ms, now_ms)
    return pa.table(
        {
            "topic": topic.cast(pa.string()),
            "partition": pa.nulls(count, pa.int32()) if partition is None else partition.cast(pa.int32()),
            "key": pa.nulls(count, pa.binary()) if key is None else key.cast(pa.binary()),
            "value": value.cast(pa.binary()),
            "timestamp": timestamp,
            "headers": pa.nulls(count) if headers is None else headers,
        }
    ).combine_chunks()
