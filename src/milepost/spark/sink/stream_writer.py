"""The streaming sink: `df.writeStream.format("milepost")`.

Over files a batch is written exactly once: it is committed under the query's id and the batch's number, and a batch that Spark runs again
after a failure is recognised. Over the wire a batch that is run again is produced again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from milepost.clock import SystemClock
from milepost.files import Disk
from milepost.spark.sink.batch_writer import files_of, sink_options, write_task
from milepost.spark.sink.messages import Written
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import abandon, make_staging, sweep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class MilepostStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions):
        self.options = options
        if options.path is not None:
            make_staging(Disk(), options.path, options.staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "tasks run within Spark"
        query = context.getLocalProperty(QUERY_ID)
        batch = context.getLocalProperty(BATCH_ID)
        job = f"{self.options.staging}/{query}-{batch}" if self.options.path is not None else ""
        return write_task(iterator, self.options, job, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        if self.options.path is None or not written:
            return
        from milepost.spark.sink.commit import Commit

        sweep(Disk(), self.options.staging, SystemClock())
        Commit(self.options, written[0].job).run(files_of(messages), written[0].query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for job in {message.job for message in messages if isinstance(message, Written) and message.job}:
            abandon(job)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> MilepostStreamWriter:
    return MilepostStreamWriter(sink_options(options, schema, overwrite))
