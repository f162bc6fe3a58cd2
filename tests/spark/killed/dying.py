"""milepost's source, sink and jobs with a deadly step inside: in tasks, in the process that commits, and in the driver if asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrameReader, DataFrameWriter
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from milepost.spark.jobs import compact, export
from milepost.spark.jobs.tasks import run_tasks
from milepost.spark.source import MilepostDataSource
from tests.spark.killed.steps import Step, armed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "dying"
Messages = list[WriterCommitMessage | None]


class DyingReader(DataSourceReader):
    def __init__(self, reader: DataSourceReader, step: Step):
        self.reader = reader
        self.step = step

    def partitions(self) -> Sequence[InputPartition]:
        return self.reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with armed(self.step):
            yield from self.reader.read(partition)


class DyingWriter(DataSourceArrowWriter):
    def __init__(self, writer: Any, step: Step):
        self.writer = writer
        self.step = step

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with armed(self.step):
            return self.writer.write(iterator)  # type: ignore[no-any-return]

    def commit(self, messages: Messages) -> None:
        with armed(self.step):
            self.writer.commit(messages)

    def abort(self, messages: Messages) -> None:
        self.writer.abort(messages)


class DyingStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Any, step: Step):
        self.writer = writer
        self.step = step

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with armed(self.step):
            return self.writer.write(iterator)  # type: ignore[no-any-return]

    def commit(self, messages: Messages, batchId: int) -> None:
        with armed(self.step):
            self.writer.commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        self.writer.abort(messages, batchId)


def dying_source(step: Step) -> type[DataSource]:
    """Made anew for each step, so that it crosses by value, with the step inside."""

    class Dying(MilepostDataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def reader(self, schema: StructType) -> DataSourceReader:
            return DyingReader(MilepostDataSource.reader(self, schema), step)

        def writer(self, schema: StructType, overwrite: bool) -> Any:
            return DyingWriter(MilepostDataSource.writer(self, schema, overwrite), step)

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
            return DyingStreamWriter(MilepostDataSource.streamWriter(self, schema, overwrite), step)

    return Dying


def dying_work(step: Step, work: Callable[[Any], Any], task: Any) -> Any:
    with armed(step):
        return work(task)


def renamed(real: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Spark lets nobody take the place of a source that it has found by itself."""
    return lambda self, source: real(self, NAME if source == MilepostDataSource.name() else source)


@contextlib.contextmanager
def dying(spark: SparkSession, step: Step, *, in_driver: bool) -> Iterator[None]:
    """Within this, format("milepost") and the tasks of jobs die at the step."""
    from pytest import MonkeyPatch  # not for workers, which import this module too

    def run(session: Any, tasks: Sequence[Any], work: Callable[[Any], Any], *more: Any) -> list[Any]:
        return run_tasks(session, tasks, partial(dying_work, step, work), *more)

    spark.dataSource.register(dying_source(step))
    with MonkeyPatch.context() as patched:
        for owner in (DataFrameReader, DataFrameWriter, DataStreamWriter):
            patched.setattr(owner, "format", renamed(owner.format))
        for module in (export, compact):
            patched.setattr(module, "run_tasks", run)
        with armed(step) if in_driver else contextlib.nullcontext():
            yield
