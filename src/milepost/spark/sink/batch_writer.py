"""The batch sink: `df.write.format("milepost").mode("append")`.

Over files a write is all or nothing: tasks stage, the driver commits. Over the wire it is at least once: what tasks produced before one of
them failed stays produced. Overwriting is refused: a log is appended to.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from milepost.clock import SystemClock
from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.sink.messages import Written
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.rows import check_columns
from milepost.spark.sink.staging import abandon, make_staging, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


class MilepostWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions):
        self.options = options
        self.job = ""
        if options.path is not None:
            make_staging(Disk(), options.path, options.staging)
            self.job = f"{options.staging}/{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(iterator, self.options, self.job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.options.path is not None:
            from milepost.spark.sink.commit import Commit

            sweep(Disk(), self.options.staging, SystemClock())
            Commit(self.options, self.job).run(files_of(messages), *(self.options.commit_id or (None, None)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.job:
            abandon(self.job)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> MilepostWriter:
    return MilepostWriter(sink_options(options, schema, overwrite))


def sink_options(given: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    if overwrite:
        raise InvalidArgument(
            'mode("overwrite"): a log is appended to; use mode("append"), and milepost topics delete to begin anew'
        )
    options = SinkOptions.parse(given)
    check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields], options)
    return options


def write_task(iterator: Iterator[pa.RecordBatch], options: SinkOptions, job: str, query: str | None = None) -> Written:
    """On an executor: the rows of one attempt at one task."""
    context = TaskContext.get()
    assert context is not None, "tasks run within Spark"
    if options.path is None:
        from milepost.spark.sink.wire import produce

        return Written(produce(iterator, options, context.partitionId()), query=query, job=job)
    from milepost.spark.sink.task import stage

    # Padded: the commit appends the files by name, in the order of the tasks. Spark's own number of an attempt would not do: a driver that
    # was restarted counts from 0 again, and a batch of a stream is staged where its killed attempt was.
    attempt = f"{context.partitionId():06d}-{uuid.uuid4().hex[:12]}"
    files = stage(iterator, options, job, context.partitionId(), attempt)
    return Written(sum(file.records for file in files), files, query, job)


def files_of(messages: list[WriterCommitMessage | None]) -> list:  # type: ignore[type-arg]
    return [file for message in messages if isinstance(message, Written) for file in message.files]
