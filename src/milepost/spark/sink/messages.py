"""What a task tells the driver when it is done."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from milepost.spark.sink.staging import StagedFile


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    records: int
    files: tuple[StagedFile, ...] = ()
    query: str | None = None
    job: str = ""
