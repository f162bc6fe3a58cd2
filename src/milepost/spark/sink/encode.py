"""From rows to Kafka batches: which partition each row goes to, and the batches of each partition.

Rows come in tables of a few megabytes. Those of a topic are sorted by partition (rows of one partition keep their order), and each stretch
is written by the compiled kernel in one go, cut into batches of about `batch_bytes`. Offsets within a batch count from 0: whoever appends
it gives it its place; the CRC does not cover that.

A row without partition and key goes to one partition for a whole table, and to the next one for the next: large batches, evenly spread.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from milepost.codec.compression import compress
from milepost.errors import InvalidArgument
from milepost.record.batch import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from milepost.record.builder import pack_batch
from milepost.record.kernel import Columns, encode_records
from milepost.record.key_partitions import NO_KEY, partitions_of
from milepost.record.records import write_headers
from milepost.spark.sink.options import SinkOptions
from milepost.topic_partition import TopicPartition, topic_name_fault

if TYPE_CHECKING:
    import pyarrow as pa

ROW_OVERHEAD = 20
EMPTY = memoryview(b"\0")

Producer = tuple[int, int, int]
"""(producer id, epoch, first sequence) of a batch."""


class Encoder:
    """`partitions_in` says how many partitions a topic has; `start` spreads the tasks of one write over the partitions."""

    def __init__(self, options: SinkOptions, partitions_in: Callable[[str], int], start: int = 0):
        self.options = options
        self._partitions_in = partitions_in
        self._known: dict[str, int] = {}
        self._turns = count(start)

    def encode(self, table: pa.Table) -> Iterator[tuple[TopicPartition, int, Rows]]:
        """(partition, how many rows, the rows) of each batch, in order within a partition."""
        import pyarrow.compute as pc

        spread = next(self._turns)
        topics = table.column("topic").unique().to_pylist()
        for topic in topics:
            own = table if len(topics) == 1 else table.filter(pc.equal(table.column("topic"), topic))
            chosen = self._chosen(topic, own, spread)
            # The sort is stable.
            rows = Rows(own.select(list(Rows.COLUMNS)).take(pc.array_sort_indices(chosen)))
            at = 0
            for partition, size in sorted((each["values"], each["counts"]) for each in pc.value_counts(chosen).to_pylist()):
                for start, end in rows.cuts(at, at + size, self.options.batch_bytes):
                    yield TopicPartition(topic, partition), end - start, rows.part(start, end)
                at += size

    def _chosen(self, topic: str, table: pa.Table, spread: int) -> pa.Array:
        """The partition of each row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        many = self._partitions(topic)
        chosen = one_chunk(table.column("partition"))
        if chosen.null_count:
            hashed = partitions_of(*layout(table.column("key")), many)
            by_key = pa.Array.from_buffers(pa.int32(), len(hashed), [None, pa.py_buffer(hashed)])
            chosen = pc.coalesce(chosen, pc.if_else(pc.equal(by_key, NO_KEY), pa.scalar(spread % many, pa.int32()), by_key))
        bounds = pc.min_max(chosen).as_py()
        if bounds["min"] < 0 or bounds["max"] >= many:
            wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
            raise InvalidArgument(f"a row is for partition {wrong} of {topic}, which has {many}")
        return chosen

    def _partitions(self, topic: str) -> int:
        if topic not in self._known:
            fault = topic_name_fault(topic)
            if fault is not None:
                raise InvalidArgument(f"topic name {topic[:60]!r}: {fault}")
            self._known[topic] = self._partitions_in(topic)
        return self._known[topic]


class Rows:
    """A table's columns where the kernel can read them, or a stretch of them."""

    COLUMNS = ("key", "value", "timestamp", "headers")

    def __init__(self, table: pa.Table):
        self.key_start, self.key_length, self.keys = layout(table.column("key"))
        self.value_start, self.value_length, self.values = layout(table.column("value"))
        self.times = one_chunk(table.column("timestamp"))
        headers = table.column("headers")
        self.headers = None if headers.null_count == len(headers) else headers.to_pylist()

    def __len__(self) -> int:
        return len(self.times)

    def cuts(self, start: int, end: int, batch_bytes: int) -> Iterator[tuple[int, int]]:
        """Stretches of about `batch_bytes`, of at least one row."""
        # Values and keys lie one behind the other, so where they begin says how much lies between two rows.
        while start < end:
            limit = self._position(start) + batch_bytes
            cut = bisect_left(range(start + 1, end), limit, key=self._position) + start + 1
            yield start, min(cut, end)
            start = min(cut, end)

    def _position(self, row: int) -> int:
        return self.value_start[row] + self.key_start[row] + ROW_OVERHEAD * row

    def part(self, start: int, end: int) -> Rows:
        part = Rows.__new__(Rows)
        for name in ("key_start", "key_length", "value_start", "value_length", "times"):
            setattr(part, name, getattr(self, name)[start:end])
        part.keys, part.values = self.keys, self.values
        part.headers = None if self.headers is None else self.headers[start:end]
        return part

    def batch(self, options: SinkOptions, producer: Producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)) -> bytes:
        """One Kafka batch of all rows, at offset 0."""
        import pyarrow.compute as pc

        times, count = self.times, len(self)
        columns: Any = Columns(count)
        columns.offsets = offsets(count)
        columns.timestamps = memoryview(times.buffers()[1]).cast("q")[times.offset : times.offset + count]
        columns.key_start, columns.key_length = self.key_start, self.key_length
        columns.value_start, columns.value_length = self.value_start, self.value_length
        headers: Any = EMPTY
        if self.headers is not None:
            headers = self._encode_headers(columns)
        base = columns.timestamps[0]
        section = encode_records(columns, self.keys, self.values, headers, 0, base)
        return pack_batch(
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            attributes=int(options.codec),
            last_offset_delta=count - 1,
            base_timestamp=base,
            max_timestamp=pc.max(times).as_py(),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            record_count=count,
            payload=compress(options.codec, section),
        )

    def _encode_headers(self, columns: Any) -> bytearray:
        """Headers are rare: row by row."""
        assert self.headers is not None
        encoded = bytearray()
        for row, headers in enumerate(self.headers):
            columns.header_start[row] = len(encoded)
            pairs = tuple((header["key"], header["value"]) for header in headers or ())
            write_headers(encoded, pairs)
            columns.header_count[row] = len(pairs)
            columns.header_end[row] = len(encoded)
        return encoded or bytearray(1)


@cache
def many_offsets(count: int) -> memoryview:
    return memoryview(array("q", range(count)))


def offsets(count: int) -> memoryview:
    """0, 1, 2, …: made once for batches of all sizes."""
    return many_offsets(1 << (count - 1).bit_length())[:count]


def one_chunk(column: Any) -> Any:
    """A column as one array."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # what does not fit one array of 2 GiB, or is empty
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def layout(column: Any) -> tuple[memoryview, memoryview, memoryview]:
    """Where each value begins, how long it is (-1: null), and the bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = one_chunk(column)
    count, offset = len(array), array.offset
    _, ends, data = array.buffers()
    starts = memoryview(ends).cast("i")[offset : offset + count] if ends is not None else memoryview(bytes(4 * count)).cast("i")
    lengths = pc.fill_null(pc.binary_length(array), -1).cast(pa.int32())
    sizes = memoryview(lengths.buffers()[1]).cast("i")[lengths.offset : lengths.offset + count]
    return starts, sizes, memoryview(data).cast("B") if data is not None and data.size else EMPTY
