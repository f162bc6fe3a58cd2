"""What one task of an export does: decode its split and write Parquet files, one per date and hour, into staging.

Rows go from the log to Arrow to Parquet within the worker. Row groups are about 64 MB; only columns that repeat (topic, partition, …) are
encoded as dictionaries: trying it on keys and values costs more than it saves. A task keeps at most `MOST_FILES` files open; when times
are all over the place, an hour that was closed gets a second file. Where the worker's memory is limited, rows that wait for their row group
take an eighth of what is left at most: row groups are smaller then.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from milepost.errors import InvalidArgument
from milepost.files import Disk, make_directories
from milepost.spark.columns import RECORDS, Columns
from milepost.spark.jobs.export_state import ExportedFile
from milepost.spark.jobs.hours import by_hour, start_of
from milepost.spark.transport import Split
from milepost.spark.worker_memory import headroom

GROUP_BYTES, GROUP_ROWS = 64 << 20, 1 << 20
MOST_FILES = 64
DICTIONARY = ("topic", "partition", "timestampType")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
HOUR, DATE, NONE = PARTITIONINGS = ("hour", "date", "none")
CODECS = ("snappy", "zstd", "gzip", "lz4", "none")


@dataclass(frozen=True, slots=True)
class ExportTask:
    number: int
    commit: int
    split: Split
    columns: tuple[str, ...]
    target: str
    staging: str
    """Below the target."""
    partition_by: str
    codec: str


@dataclass(frozen=True, slots=True)
class Exported:
    files: tuple[ExportedFile, ...]
    rows: int


class _File:
    """A Parquet file that is being written."""

    def __init__(self, path: str, schema: pa.Schema, codec: str):
        self.path = path
        dictionary = [name for name in DICTIONARY if name in schema.names]
        self.writer = pq.ParquetWriter(path, schema, compression=codec, use_dictionary=dictionary or False)
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = self.waiting_rows = self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        self.waiting_bytes += batch.nbytes
        self.waiting_rows += batch.num_rows
        if self.waiting_bytes >= GROUP_BYTES or self.waiting_rows >= GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting), row_group_size=GROUP_ROWS)
            self.rows += self.waiting_rows
            self.waiting, self.waiting_bytes, self.waiting_rows = [], 0, 0

    def close(self) -> None:
        self.flush()
        self.writer.close()


class _Exporter:
    def __init__(self, task: ExportTask):
        self.task = task
        self.disk = Disk()
        self.columns = Columns(RECORDS, task.columns)
        names = task.columns if "timestamp" in task.columns else (*task.columns, "timestamp")
        self.read = Columns(RECORDS, names)
        self.schema = self.columns.arrow_schema()
        # Another attempt at the same task may be writing, too.
        self.directory = f"{task.staging}/{task.number:06d}-{uuid.uuid4().hex[:8]}"
        make_directories(self.disk, f"{task.target}/{self.directory}")
        left = headroom()
        self.most_waiting = None if left is None else left // 8
        self.waiting = 0
        """Bytes of the batches that wait: a part of one keeps all of it, until the rows of all files are written."""
        self.open: dict[tuple[str | None, ...], _File] = {}
        self.done: list[ExportedFile] = []

    def run(self) -> Exported:
        rows = 0
        is_limited = self.most_waiting is not None
        for batch in self.task.split.read(self.read, reuse_buffers=is_limited):
            if is_limited:
                # A batch reserves several times what it fills; a copy takes no more than its rows.
                batch = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
            rows += batch.num_rows
            # Only the columns that are wanted go on; the timestamp may have been read just to know the hour.
            kept = batch.select(list(self.task.columns))
            for hour, part in by_hour(kept, batch.column("timestamp")):
                self._file(hour).add(part)
            self._stay_within(batch)
        while self.open:
            self._close(next(iter(self.open)))
        self.disk.sync_directory(f"{self.task.target}/{self.directory}")
        return Exported(tuple(self.done), rows)

    def _stay_within(self, batch: pa.RecordBatch) -> None:
        if self.most_waiting is None:
            return
        self.waiting += batch.nbytes
        if self.waiting >= self.most_waiting:
            for file in self.open.values():
                file.flush()
            self.waiting = 0

    def _values(self, hour: int | None) -> dict[str, str | None]:
        if self.task.partition_by == NONE:
            return {}
        moment = None if hour is None else start_of(hour)
        values: dict[str, str | None] = {"date": None if moment is None else moment.strftime("%Y-%m-%d")}
        if self.task.partition_by == HOUR:
            values["hour"] = None if moment is None else str(moment.hour)
        return values

    def _file(self, hour: int | None) -> _File:
        key = tuple(self._values(hour).values())
        found = self.open.get(key)
        if found is None:
            if len(self.open) >= MOST_FILES:
                self._close(next(iter(self.open)))
            name = f"{len(self.done) + len(self.open):05d}.parquet"
            found = self.open[key] = _File(f"{self.task.target}/{self.directory}/{name}", self.schema, self.task.codec)
        else:
            # The one that was written to longest ago is the first to be closed.
            self.open[key] = self.open.pop(key)
        return found

    def _close(self, key: tuple[str | None, ...]) -> None:
        file = self.open.pop(key)
        file.close()
        fd = self.disk.open(file.path, os.O_RDONLY)
        self.disk.fsync(fd)
        size = self.disk.size(fd)
        self.disk.close(fd)
        name = file.path.rpartition("/")[2]
        names = ("date", "hour")[: len(key)]
        directory = "".join(f"{label}={HIVE_NULL if value is None else value}/" for label, value in zip(names, key, strict=True))
        final = f"{directory}part-{self.task.commit:010d}-{self.task.number:06d}-{name}"
        values = dict(zip(names, key, strict=True))
        self.done.append(ExportedFile(f"{self.directory}/{name}", final, file.rows, size, values))


def export_split(task: ExportTask) -> Exported:
    """Write the rows of one split; the files are whole and on the medium when this returns."""
    if task.codec not in CODECS:
        raise InvalidArgument(f"codec {task.codec!r}; {', '.join(CODECS)} are possible")
    exported = _Exporter(task).run()
    for file in exported.files:
        written = pq.read_metadata(f"{task.target}/{file.staged}").num_rows
        assert written == file.rows, f"{file.staged} has {written} rows, {file.rows} were written"
    return exported
