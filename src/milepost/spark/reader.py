"""The batch reader: planned once on the driver, read by tasks.

Spark makes it in a process of its own, asks it for its partitions and sends it, pickled, to every task. So it holds plain values, and
what is heavy is imported where it is used.

Partitions are planned once for each loaded DataFrame: a second action on it reads the same offsets, a snapshot of the log. To see what
was appended since, load again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from milepost.clock import SystemClock
from milepost.spark.bounds import batch_ranges
from milepost.spark.columns import RECORDS, Columns
from milepost.spark.offset_range import OffsetRange
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.transport import Split, Transport
from milepost.spark.worker_errors import quiet_about_limits, said_first

if TYPE_CHECKING:
    import pyarrow as pa


class MilepostReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Columns):
        self.options = options
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        with said_first():
            if self.options.view != RECORDS:
                from milepost.spark.log_files.views import plan_view

                return [InputPartition(split) for split in plan_view(self.options)]
            with open_transport(self.options) as transport:
                transport.hold_still()
                return [InputPartition(split) for split in self.plan(transport)]

    def plan(self, transport: Transport) -> list[Split]:
        return transport.plan(self.ranges(transport))

    def ranges(self, transport: Transport) -> list[OffsetRange]:
        return batch_ranges(self.options, transport, SystemClock().now_ms())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition.value, self.columns)


def read_split(split: Split | None, columns: Columns) -> Iterator[pa.RecordBatch]:
    """What a task does. Spark makes one partition without a value when there is nothing to read."""
    if split is not None:
        quiet_about_limits()
        # Spark has written a batch to its socket before it asks for the next one.
        with said_first():
            yield from split.read(columns, reuse_buffers=True)
