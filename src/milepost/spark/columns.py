"""The columns of each view: their names, Spark types and Arrow types.

    view      one row per
    records   record: the schema of spark-sql-kafka, so that a job moves by changing the name of its format
    batches   batch, from its 61-byte header (or what the old formats have of it); nothing is decompressed
    segments  segment file: what it holds and how its bytes add up
    files     name found below the path, and what it was taken for

Python sources get no column pruning from Spark, so a schema of the user's is the way to ask for less: any of these columns, in
any order. `bad_ts` (a record's milliseconds that no timestamp can hold) is there only when asked for in this way.

All columns are nullable, as the connector's are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, BATCHES, SEGMENTS, FILES = VIEWS = ("records", "batches", "segments", "files")

BINARY, STRING, INT, LONG, BOOLEAN, TIMESTAMP = "binary", "string", "int", "bigint", "boolean", "timestamp"
HEADERS = "array<struct<key:string,value:binary>>"

COLUMNS: dict[str, dict[str, str]] = {
    RECORDS: {
        "key": BINARY, "value": BINARY, "topic": STRING, "partition": INT, "offset": LONG, "timestamp": TIMESTAMP, "timestampType": INT,
        "headers": HEADERS, "bad_ts": LONG,
    },
    BATCHES: {
        "topic": STRING, "partition": INT, "segment": LONG, "position": LONG, "size": INT, "base_offset": LONG, "last_offset": LONG,
        "record_count": INT, "magic": INT, "codec": STRING, "timestamp_type": INT, "base_timestamp": TIMESTAMP,
        "max_timestamp": TIMESTAMP, "producer_id": LONG, "producer_epoch": INT, "base_sequence": INT, "leader_epoch": INT,
        "is_transactional": BOOLEAN, "is_control": BOOLEAN, "crc": LONG, "crc_valid": BOOLEAN,
    },
    SEGMENTS: {
        "topic": STRING, "partition": INT, "segment": LONG, "path": STRING, "is_active": BOOLEAN, "size": LONG, "batches": LONG,
        "records": LONG, "first_offset": LONG, "last_offset": LONG, "max_timestamp": TIMESTAMP, "index_bytes": LONG,
        "timeindex_bytes": LONG, "txnindex_bytes": LONG, "valid_bytes": LONG, "tail_bytes": LONG, "damaged_bytes": LONG,
        "reason": STRING,
    },
    FILES: {"path": STRING, "kind": STRING, "size": LONG, "reason": STRING},
}  # fmt: skip
ON_REQUEST = {RECORDS: ("bad_ts",)}


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of one view, in order."""

    view: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, view: str = RECORDS, include_headers: bool = False) -> Columns:
        """Those a user gets who does not choose."""
        names = (name for name in COLUMNS[view] if name not in ON_REQUEST.get(view, ()))
        return cls(view, tuple(name for name in names if include_headers or (view, name) != (RECORDS, "headers")))

    @classmethod
    def chosen(cls, view: str, fields: Iterable[tuple[str, str]]) -> Columns:
        """Those of a schema, given as (name, type in Spark's short form)."""
        known = COLUMNS[view]
        names: list[str] = []
        for name, kind in fields:
            if name not in known:
                raise InvalidArgument(f"column {name!r}: the view {view} has {', '.join(known)}")
            if kind != known[name]:
                raise InvalidArgument(f"column {name}: it is {known[name]}, the schema says {kind}; read it as it is and cast it")
            if name in names:
                raise InvalidArgument(f"column {name}: the schema names it twice")
            names.append(name)
        if not names:
            raise InvalidArgument(f"the schema is empty; the view {view} has {', '.join(known)}")
        return cls(view, tuple(names))

    def ddl(self) -> str:
        """The schema in Spark's words."""
        return ", ".join(f"`{name}` {COLUMNS[self.view][name]}" for name in self.names)

    def arrow_schema(self) -> pa.Schema:
        import pyarrow as pa

        types = {
            BINARY: pa.binary(),
            STRING: pa.string(),
            INT: pa.int32(),
            LONG: pa.int64(),
            BOOLEAN: pa.bool_(),
            TIMESTAMP: pa.timestamp("us", tz="UTC"),
            HEADERS: pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
        return pa.schema([(name, types[COLUMNS[self.view][name]]) for name in self.names])
