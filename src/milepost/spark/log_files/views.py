"""The views of a log that are not its records: `batches`, `segments` and `files`.

    batches    one row per batch between the bounds of the query, from its header; damage shows as a row whose crc_valid is false
    segments   one row per segment file: what it holds, and how its bytes add up: size = valid + tail + damaged
    files      one row per segment and per name that was skipped, with the reason

They are for looking: damage is a row here and no error. The bounds of a query (offsets, times) count for `batches` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.clock import SystemClock
from milepost.errors import InvalidRecord, MilepostError
from milepost.files import Disk
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.paths import MAX_OFFSET
from milepost.inspect.vocabulary import codec_name
from milepost.record.batch import NO_TIMESTAMP, RecordBatch
from milepost.record.batches import AnyBatch
from milepost.segment import names
from milepost.spark.bounds import batch_ranges
from milepost.spark.columns import BATCHES, COLUMNS, FILES, TIMESTAMP, Columns
from milepost.spark.log_files.listing import PartitionFiles
from milepost.spark.log_files.piece import Piece, PieceSplit
from milepost.spark.log_files.planning import pack, pieces_of, share_of
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.options import SourceOptions
from milepost.spark.transport import Split

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 8192
LATEST_TIME = (2**63 - 1) // 1000
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ViewSplit(PieceSplit):
    """Segments to be shown as a view, or rows that are known already."""

    view: str
    pieces: tuple[Piece, ...] = ()
    rows: tuple[tuple[str, str, int, str | None], ...] = ()

    def read(self, columns: Columns, *, reuse_buffers: bool = False) -> Iterator[pa.RecordBatch]:
        return in_batches(columns, self._rows())

    def _rows(self) -> Iterator[Row]:
        disk = Disk()
        yield from (dict(zip(("path", "kind", "size", "reason"), row, strict=True)) for row in self.rows)
        for piece in self.pieces:
            if self.view == BATCHES:
                yield from batch_rows(disk, piece)
            else:
                yield segment_row(disk, piece)


def plan_view(options: SourceOptions) -> list[Split]:
    transport = LogFilesTransport(options)
    transport.hold_still()
    listing = transport.listing()
    if options.view == FILES:
        if not listing.partitions and not listing.skipped:
            transport.partitions(options.subscription)  # says why there is nothing
        found = [(each.path, "segment", each.size, None) for files in listing.partitions.values() for each in files.segments]
        skipped = [(each.path, "skipped", each.size, each.reason) for each in listing.skipped]
        return [ViewSplit(FILES, rows=(*found, *skipped))]
    if options.view == BATCHES:
        pieces = []
        for offsets in batch_ranges(options, transport, SystemClock().now_ms()):
            files = listing.partitions[offsets.partition]
            pieces += pieces_of(transport.disk, files, offsets, transport.active_end(files))
    else:
        chosen = transport.partitions(options.subscription)
        pieces = [piece for each in chosen for piece in whole_segments(listing.partitions[each])]
    total = sum(piece.size for piece in pieces)
    share = share_of(total, options.max_bytes_per_partition, options.min_partitions)
    return [ViewSplit(options.view, tuple(task)) for task in pack(pieces, share)]


def whole_segments(files: PartitionFiles) -> list[Piece]:
    """Every segment from its first to its last byte, whatever these are."""
    found = []
    for slot, segment in enumerate(files.segments):
        end = files.next_base(slot)
        found.append(Piece(files.partition, segment, end, segment.base_offset, end, 0, segment.size, segment.size, True))
    return found


def batch_rows(disk: Disk, piece: Piece) -> Iterator[Row]:
    place = {"topic": piece.partition.topic, "partition": piece.partition.partition, "segment": piece.segment.base_offset}
    with LogFile(disk, piece.segment.path, piece.segment.base_offset, piece.next_base - 1) as log:
        first = piece.segment.base_offset
        for position, found in log.walk(min(piece.data_end, log.size), start=piece.position, next_offset=first):
            if isinstance(found, Damage):
                header = {} if found.batch is None else _header(found.batch)
                yield {**place, **header, "position": position, "size": found.size, "crc_valid": False}
            elif _first_offset(found) >= piece.end:
                return
            elif found.last_offset >= piece.start:
                yield {**place, **_header(found), "position": position, "crc_valid": True}


def _header(batch: AnyBatch) -> Row:
    try:
        codec = codec_name(batch)
    except MilepostError:
        codec = f"unknown ({batch.attributes & 7})"
    common = {
        "size": batch.size, "last_offset": batch.last_offset, "record_count": batch.record_count, "magic": batch.magic, "codec": codec,
        "timestamp_type": int(batch.timestamp_type), "max_timestamp": batch.max_timestamp, "is_transactional": batch.is_transactional,
        "is_control": batch.is_control, "crc": batch.crc,
    }  # fmt: skip
    if not isinstance(batch, RecordBatch):
        return common
    return {
        **common, "base_offset": batch.base_offset, "base_timestamp": batch.first_timestamp, "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch, "base_sequence": batch.base_sequence, "leader_epoch": batch.partition_leader_epoch,
    }  # fmt: skip


def _first_offset(batch: AnyBatch) -> int:
    return batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset


def segment_row(disk: Disk, piece: Piece) -> Row:
    segment = piece.segment
    valid = tail = damaged = batches = records = 0
    first_offset = last_offset = None
    newest = NO_TIMESTAMP
    reasons = []
    with LogFile(disk, segment.path, segment.base_offset, piece.next_base - 1) as log:
        for position, found in log.walk(min(segment.size, log.size)):
            if isinstance(found, Damage):
                tail, damaged = (tail + found.size, damaged) if found.is_tail else (tail, damaged + found.size)
                reason = "zeros" if found.is_zero else found.reason
                reasons.append(f"bytes {position} to {found.end}: {reason}")
                continue
            valid, batches, newest = valid + found.size, batches + 1, max(newest, found.max_timestamp)
            first_offset = _first_offset(found) if first_offset is None else first_offset
            last_offset = found.last_offset
            records += _record_count(found)
    sizes = {
        suffix[1:] + "_bytes": _size(disk, segment.path[: -len(names.LOG)] + suffix) for suffix in names.SEGMENT_SUFFIXES[1:]
    }
    return {
        "topic": piece.partition.topic, "partition": piece.partition.partition, "segment": segment.base_offset, "path": segment.path,
        "is_active": piece.next_base == MAX_OFFSET, "size": segment.size, "batches": batches, "records": records,
        "first_offset": first_offset, "last_offset": last_offset, "max_timestamp": newest, "valid_bytes": valid, "tail_bytes": tail,
        "damaged_bytes": damaged, "reason": "; ".join(reasons) or None, **sizes,
    }  # fmt: skip


def _record_count(batch: AnyBatch) -> int:
    """A compressed set of an old format does not say how many records it has."""
    try:
        return len(batch.records()) if batch.record_count is None else batch.record_count
    except InvalidRecord:
        return 0


def _size(disk: Disk, path: str) -> int | None:
    return disk.stat(path).st_size if disk.exists(path) else None


def in_batches(columns: Columns, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = columns.arrow_schema()
    times = {name for name in columns.names if COLUMNS[columns.view][name] == TIMESTAMP}

    def value(row: Row, name: str) -> object:
        found = row.get(name)
        if name not in times or found is None:
            return found
        return None if found == NO_TIMESTAMP or abs(found) > LATEST_TIME else found * 1000

    def batch(waiting: Sequence[Row]) -> pa.RecordBatch:
        arrays = [pa.array([value(row, field.name) for row in waiting], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS_AT_ONCE:
            yield batch(waiting)
            waiting = []
    if waiting:
        yield batch(waiting)
