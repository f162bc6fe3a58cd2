"""Taking the figures of one split: batch headers in one walk, records in another.

The header says how many bytes a batch takes and in which codec; what it holds takes decompressing it. Both walks check every CRC, and
damage ends the job with its file and byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from milepost.codec.compression import DEFAULT_MAX_DECOMPRESSED
from milepost.errors import CorruptRecord
from milepost.files import Disk
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.vocabulary import codec_name
from milepost.record.batch import HEADER_SIZE, RecordBatch
from milepost.record.batches import AnyBatch
from milepost.spark.columns import RECORDS, Columns
from milepost.spark.decompress import decompress
from milepost.spark.jobs.figures import Figures
from milepost.spark.jobs.hours import hour_numbers
from milepost.spark.log_files.piece import Piece
from milepost.spark.log_files.split import FileSplit

COLUMNS = Columns(RECORDS, ("key", "value", "topic", "partition", "timestamp"))


def measure(split: FileSplit) -> list[Figures]:
    """Of each partition that the split reads."""
    disk = Disk()
    found: dict[tuple[str, int], Figures] = {}
    for piece in split.pieces:
        figures = _headers(disk, piece)
        name = (piece.partition.topic, piece.partition.partition)
        if name in found:
            found[name].add(figures)
        else:
            found[name] = figures
    for batch in split.read(COLUMNS, reuse_buffers=True):
        if batch.num_rows:
            name = (batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
            _records(batch, found[name])
    for figures in found.values():
        figures.missing_offsets = figures.end - figures.start - figures.records
    return list(found.values())


def _headers(disk: Disk, piece: Piece) -> Figures:
    figures = Figures(piece.partition, piece.start, piece.start)
    segment = piece.segment
    with LogFile(disk, segment.path, segment.base_offset, piece.next_base - 1) as log:
        for position, found in log.walk(min(piece.data_end, log.size), start=piece.position, next_offset=segment.base_offset):
            if isinstance(found, Damage):
                if found.is_zero:
                    break
                raise CorruptRecord(f"{segment.path}: batch at byte {position}: {found.reason}; milepost verify says more")
            first = found.base_offset if isinstance(found, RecordBatch) else found.last_offset
            if first >= piece.end:
                break
            if found.last_offset >= piece.start:
                _header(found, figures)
                figures.end = min(found.next_offset, piece.end)
    # Compaction may have taken the last offsets of a segment; the split stands for them all the same.
    if piece.end < piece.next_base:
        figures.end = piece.end
    return figures


def _header(batch: AnyBatch, figures: Figures) -> None:
    figures.batches += 1
    figures.log_bytes += batch.size
    figures.control_batches += batch.is_control
    figures.transactional_batches += batch.is_transactional and not batch.is_control
    codec = figures.codec(codec_name(batch))
    codec.batches += 1
    stored = plain = batch.size
    if isinstance(batch, RecordBatch):
        stored = plain = batch.size - HEADER_SIZE
        if batch.is_compressed and batch.record_count:
            plain = len(decompress(batch.codec, batch.payload(), DEFAULT_MAX_DECOMPRESSED))
    elif batch.is_compressed:
        plain = sum(len(record.key or b"") + len(record.value or b"") for record in batch.records())
    codec.stored_bytes += stored
    codec.plain_bytes += plain


def _records(batch: pa.RecordBatch, figures: Figures) -> None:
    keys, values, times = batch.column("key"), batch.column("value"), batch.column("timestamp")
    figures.records += batch.num_rows
    figures.keyless += keys.null_count
    figures.tombstones += values.null_count
    bounds = pc.min_max(times.view(pa.int64())).as_py()
    if bounds["min"] is not None:
        figures.see_times(bounds["min"] // 1000, bounds["max"] // 1000)
    hours = hour_numbers(times)
    sizes = pc.add(pc.fill_null(pc.binary_length(keys), 0), pc.fill_null(pc.binary_length(values), 0)).cast(pa.int64())
    for hour, records, size in _grouped(hours, sizes):
        counted = figures.hour(hour)
        counted.records += records
        counted.bytes += size


def _grouped(hours: pa.Array, sizes: pa.Array) -> Iterator[tuple[Any, int, int]]:
    bounds = pc.min_max(hours).as_py()
    if bounds["min"] == bounds["max"] and hours.null_count in (0, len(hours)):
        yield bounds["min"], len(hours), pc.sum(sizes).as_py()
        return
    table = pa.table({"hour": hours, "size": sizes})
    for row in table.group_by("hour", use_threads=False).aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        yield row["hour"], row["size_count"], row["size_sum"]
