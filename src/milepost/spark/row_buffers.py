"""Memory of Arrow columns that the kernel fills, and the record batch over it.

The memory is laid out once and used again for every batch when the consumer allows it (Spark's row lane has written a batch to its
socket before it asks for the next): fresh memory costs as much in page faults as decoding into it. It is taken from
Arrow's pool at its full size, of which the operating system gives only the pages that are touched.

A column's memory is `CAPACITY_ROWS` rows and somewhat more than the bytes of one batch; a single Kafka batch that does
not fit makes it larger, once.

Not promised: that a batch stays as it is when buffers are reused and the next one is begun.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from milepost.record.arrow_rows import ArrowRows
from milepost.spark.columns import Columns

CAPACITY_ROWS = 1 << 17
CAPACITY_HEADERS = 1 << 16
MIN_RECORD, MIN_HEADER = 7, 2
MAX_BYTES = 2**31 - 1
"""Arrow's offsets into the bytes of a column have 32 bits."""


_spare: list[RowBuffers] = []
"""What the last task of this process used. Spark's workers run one task after the other, and each would pay for its memory again."""


class RowBuffers:
    @classmethod
    def borrow(cls, columns: Columns, batch_bytes: int) -> RowBuffers:
        """Buffers that are used again for every batch; give them back when the last batch is gone."""
        while _spare:
            found = _spare.pop()
            if (found.columns, found.batch_bytes) == (columns, batch_bytes):
                found.rows.clear()
                found.rows.expect(0)
                return found
        return cls(columns, batch_bytes, reuse=True)

    def give_back(self) -> None:
        # Memory that one huge batch needed is not kept for the life of a worker.
        if self.reuse and not self._has_grown and not _spare:
            _spare.append(self)

    def __init__(self, columns: Columns, batch_bytes: int, reuse: bool):
        self.columns = columns
        self.batch_bytes = batch_bytes
        self.schema = columns.arrow_schema()
        self.reuse = reuse
        self._capacity = CAPACITY_ROWS
        self._header_capacity = CAPACITY_HEADERS
        self._bytes = min(batch_bytes + batch_bytes // 4 + (1 << 20), MAX_BYTES)
        self._has_grown = False
        self._constants: dict[tuple[str, object], Any] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        rows, headers, wanted = self._capacity, self._header_capacity, set(self.columns.names)
        bits = (rows + 7) // 8
        sizes: dict[str, int] = {}
        if "offset" in wanted:
            sizes["offset"] = 8 * rows
        if "timestamp" in wanted:
            sizes |= {"timestamp": 8 * rows, "timestamp_valid": bits}
        if "bad_ts" in wanted:
            sizes |= {"bad_timestamp": 8 * rows, "bad_timestamp_valid": bits}
        if "timestampType" in wanted:
            sizes["timestamp_type"] = 4 * rows
        for name in {"key", "value"} & wanted:
            sizes |= {f"{name}_ends": 4 * rows + 4, f"{name}_valid": bits, f"{name}_data": self._bytes}
        if "headers" in wanted:
            sizes |= {"headers_ends": 4 * rows + 4, "headers_valid": bits}
            sizes |= {"header_key_ends": 4 * headers + 4, "header_key_data": self._bytes}
            sizes |= {"header_value_ends": 4 * headers + 4, "header_value_valid": (headers + 7) // 8}
            sizes["header_value_data"] = self._bytes
        self._buffers = {name: pa.allocate_buffer(size) for name, size in sizes.items()}
        room = {name: memoryview(buffer).cast("B") for name, buffer in self._buffers.items()}
        self.rows = ArrowRows(rows, headers, room)

    def grow(self, payload: int) -> None:
        """Make room for one batch with that many bytes of records. Only between batches: what was there is forgotten."""
        assert self.rows.rows == 0
        self._has_grown = True
        expected = self.rows.next_offset
        self._bytes = max(self._bytes, min(payload, MAX_BYTES))
        self._capacity = max(self._capacity, payload // MIN_RECORD + 1)
        self._header_capacity = max(self._header_capacity, payload // MIN_HEADER + 1)
        self._lay_out()
        self.rows.expect(expected)

    def take(self, topic: str, partition: int) -> pa.RecordBatch:
        """The rows so far, which are gone from here afterwards."""
        rows, headers, keys, values, header_keys, header_values = self.rows.sizes
        arrays = []
        for name, field in zip(self.columns.names, self.schema, strict=True):
            if name == "topic":
                array = self._constant(name, topic, field.type, rows)
            elif name == "partition":
                array = self._constant(name, partition, field.type, rows)
            elif name == "headers":
                array = self._headers(field.type, rows, headers, header_keys, header_values)
            elif name in ("key", "value"):
                array = self._sized(field.type, rows, name, keys if name == "key" else values)
            elif name == "timestampType":
                array = pa.Array.from_buffers(field.type, rows, [None, self._buffers["timestamp_type"]])
            elif name == "offset":
                array = pa.Array.from_buffers(field.type, rows, [None, self._buffers["offset"]])
            else:
                column = "bad_timestamp" if name == "bad_ts" else name
                array = pa.Array.from_buffers(field.type, rows, [self._buffers[f"{column}_valid"], self._buffers[column]])
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self.reuse:
            self.rows.clear()
        else:
            expected = self.rows.next_offset
            self._lay_out()
            self.rows.expect(expected)
        return batch

    def _constant(self, name: str, value: object, kind: pa.DataType, rows: int) -> pa.Array:
        """The same value in every row: made once, for as many rows as there can be, and cut."""
        known = self._constants.get((name, value))
        if known is None or len(known) < rows:
            self._constants = {key: array for key, array in self._constants.items() if key[0] != name}
            # Few rows first: a task over many small partitions would otherwise fill memory for each of them.
            known = pa.repeat(pa.scalar(value, kind), max(rows, 1024) if known is None else max(rows, CAPACITY_ROWS))
            self._constants[name, value] = known
        return known.slice(0, rows)

    def _sized(self, kind: pa.DataType, rows: int, name: str, used: int) -> pa.Array:
        buffers = self._buffers
        data = buffers[f"{name}_data"].slice(0, used)
        return pa.Array.from_buffers(kind, rows, [buffers.get(f"{name}_valid"), buffers[f"{name}_ends"], data])

    def _headers(self, kind: pa.ListType, rows: int, headers: int, key_bytes: int, value_bytes: int) -> pa.Array:
        keys = self._sized(pa.string(), headers, "header_key", key_bytes)
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            # Arrow's text is UTF-8 without exception: what is not becomes replacement characters, as in Java.
            raw = self._sized(pa.binary(), headers, "header_key", key_bytes)
            keys = pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
        values = self._sized(pa.binary(), headers, "header_value", value_bytes)
        entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
        valid, ends = self._buffers["headers_valid"], self._buffers["headers_ends"]
        return pa.Array.from_buffers(kind, rows, [valid, ends], children=[entries])
