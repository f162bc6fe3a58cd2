"""What one task of a sink does with its rows: stage them beside the data directory, or produce them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.clock import SystemClock
from milepost.files import Disk
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import Stage, StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


def stage(batches: Iterable[pa.RecordBatch], options: SinkOptions, job: str, task: int, attempt: str) -> tuple[StagedFile, ...]:
    """The rows as batches in files, one for each partition."""
    from milepost.spark.sink.encode import Encoder
    from milepost.spark.sink.partition_counts import in_directory
    from milepost.spark.sink.rows import normalised
    from milepost.spark.sink.tables import tables

    assert options.path is not None
    disk = Disk()
    staged = Stage(disk, job, attempt)
    encoder = Encoder(options, in_directory(disk, options.path, options.partitions), task)
    try:
        for group in tables(batches):
            for partition, count, rows in encoder.encode(normalised(group, options, SystemClock().now_ms())):
                staged.append(partition, rows.batch(options), count)
    except BaseException:
        staged.abandon()
        raise
    return staged.finish()
