"""A log as Arrow tables: its segments, batches, records and index entries.

    import milepost.inspect
    milepost.inspect.batches("data/page_visits-0").to_pandas()

Each function takes a file, a partition directory or a data directory, reads it as it lies on disk (nothing is recovered,
nothing is written) and needs pyarrow. The first column, `partition`, is the name of the directory. A timestamp of -1 is null.
Bytes that are no valid batch are left out of `segments` and `batches`; `records` raises CorruptRecord at the first such stretch
in the middle of a log unless `skip_damaged` is given. A torn end is left out everywhere.

    segments       base_offset next_offset size batches records largest_timestamp index_entries time_index_entries aborted_transactions
    batches        segment position size base_offset last_offset record_count magic codec timestamp_type max_timestamp producer_id
                   producer_epoch base_sequence last_sequence partition_leader_epoch is_transactional is_control delete_horizon crc
    records        segment position offset timestamp timestamp_type key value headers sequence producer_id is_transactional is_control
    index_entries  segment index ("offset" or "time") slot offset position timestamp

What the formats of magic 0 and 1 do not have is null. Not promised: that a table fits into memory; name one segment of a large
log.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from milepost.errors import CorruptRecord, InvalidArgument
from milepost.files import Disk
from milepost.inspect.index_files import (
    IndexFile,
    offset_entries,
    read_offset_index,
    read_time_index,
    read_txn_index,
    time_entries,
)
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.paths import FileKind, PathKind, look_at, partitions_in, read_name, segment_bases
from milepost.inspect.vocabulary import TIMESTAMP_TYPES, codec_name
from milepost.record.batches import AnyBatch
from milepost.segment import names

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 65536
Place = tuple[str, int]  # partition directory, base offset
Row = tuple[Any, ...]

LONG, INT, TEXT, BYTES, FLAG, TIME = "int64", "int32", "string", "binary", "bool", "time"
SEGMENTS = {
    "partition": TEXT, "base_offset": LONG, "next_offset": LONG, "size": LONG, "batches": LONG, "records": LONG, "largest_timestamp": TIME,
    "index_entries": LONG, "time_index_entries": LONG, "aborted_transactions": LONG,
}  # fmt: skip
BATCHES = {
    "partition": TEXT, "segment": LONG, "position": LONG, "size": INT, "base_offset": LONG, "last_offset": LONG, "record_count": INT,
    "magic": INT, "codec": TEXT, "timestamp_type": TEXT, "max_timestamp": TIME, "producer_id": LONG, "producer_epoch": INT,
    "base_sequence": INT, "last_sequence": INT, "partition_leader_epoch": INT, "is_transactional": FLAG, "is_control": FLAG,
    "delete_horizon": TIME, "crc": LONG,
}  # fmt: skip
RECORDS = {
    "partition": TEXT, "segment": LONG, "position": LONG, "offset": LONG, "timestamp": TIME, "timestamp_type": TEXT, "key": BYTES,
    "value": BYTES, "headers": "headers", "sequence": INT, "producer_id": LONG, "is_transactional": FLAG, "is_control": FLAG,
}  # fmt: skip
INDEX_ENTRIES = {
    "partition": TEXT, "segment": LONG, "index": TEXT, "slot": LONG, "offset": LONG, "position": LONG, "timestamp": TIME,
}  # fmt: skip


def segments(path: str, disk: Disk | None = None) -> pa.Table:
    """One row per segment."""
    disk = disk or Disk()
    return _table(SEGMENTS, (_segment(disk, place) for place in _places(disk, path)))


def batches(path: str, disk: Disk | None = None) -> pa.Table:
    """One row per batch, from its header."""
    disk = disk or Disk()
    return _table(BATCHES, (_batch(place, at, batch) for place in _places(disk, path) for at, batch in _valid(disk, place)))


def records(path: str, disk: Disk | None = None, *, skip_damaged: bool = False) -> pa.Table:
    """One row per record; keys and values as bytes."""
    disk = disk or Disk()
    rows = (
        row
        for place in _places(disk, path)
        for at, batch in _valid(disk, place, None if skip_damaged else _refuse)
        for row in _records(place, at, batch)
    )
    return _table(RECORDS, rows)


def index_entries(path: str, disk: Disk | None = None) -> pa.Table:
    """One row per entry of the offset and the time index; unused slots are left out."""
    disk = disk or Disk()
    return _table(INDEX_ENTRIES, (row for place in _places(disk, path) for row in _entries(disk, place)))


# Rows.


def _segment(disk: Disk, place: Place) -> Row:
    directory, base = place
    size = count = total = 0
    next_offset, newest = base, -1
    for position, batch in _valid(disk, place):
        size, count, total = position + batch.size, count + 1, total + (batch.record_count or len(batch.records()))
        next_offset, newest = batch.last_offset + 1, max(newest, batch.max_timestamp)
    index, times = (_index(disk, directory, base, suffix) for suffix in (names.INDEX, names.TIME_INDEX))
    txn_path = f"{directory}/{names.file_name(base, names.TXN_INDEX)}"
    aborted = len(read_txn_index(disk, txn_path)[0]) if disk.exists(txn_path) else 0
    return _name(directory), base, next_offset, size, count, total, _time(newest), index and index.entries, times and times.entries, aborted


def _batch(place: Place, position: int, batch: AnyBatch) -> Row:
    is_v2 = batch.magic >= 2
    return (
        _name(place[0]), place[1], position, batch.size, batch.base_offset if is_v2 else None, batch.last_offset, batch.record_count,
        batch.magic, codec_name(batch), TIMESTAMP_TYPES[batch.timestamp_type], _time(batch.max_timestamp),
        *((batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence, batch.partition_leader_epoch)
          if is_v2 else [None] * 5),
        batch.is_transactional, batch.is_control, batch.delete_horizon_ms, batch.crc,
    )  # fmt: skip


def _records(place: Place, position: int, batch: AnyBatch) -> Iterator[Row]:
    directory, base = place
    sequenced = batch.magic >= 2
    where = f"{directory}/{names.file_name(base, names.LOG)}"
    for record in batch.records(where=where):
        headers = [{"key": readable(key), "value": value} for key, value in record.headers]
        yield (
            _name(directory), base, position, record.offset, _time(record.timestamp), TIMESTAMP_TYPES[batch.timestamp_type], record.key,
            record.value, headers, record.sequence if sequenced else None, batch.producer_id if sequenced else None,
            batch.is_transactional, batch.is_control,
        )  # fmt: skip


def _entries(disk: Disk, place: Place) -> Iterator[Row]:
    directory, base = place
    offsets, times = (_index(disk, directory, base, suffix) for suffix in (names.INDEX, names.TIME_INDEX))
    for slot, entry in enumerate(offset_entries(offsets) if offsets else ()):
        yield _name(directory), base, "offset", slot, entry.offset, entry.position, None
    for slot, moment in enumerate(time_entries(times) if times else ()):
        yield _name(directory), base, "time", slot, moment.offset, None, _time(moment.timestamp)


# Reading.


def _places(disk: Disk, path: str) -> list[Place]:
    """The segments that a path stands for."""
    target = look_at(disk, path)
    if target.kind is PathKind.FILE:
        name = read_name(posixpath.basename(target.path))
        if name.kind not in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX) or name.base_offset is None or name.left_over:
            raise InvalidArgument(f"{path}: a table is made of a .log, .index or .timeindex file, or of a directory of them")
        return [(posixpath.dirname(target.path) or ".", name.base_offset)]
    directories = [target.path]
    if target.kind is PathKind.DATA:
        directories = [f"{target.path}/{name}" for name in partitions_in(disk, target.path)]
    return [(directory, base) for directory in directories for base in segment_bases(disk, directory)]


def _valid(disk: Disk, place: Place, on_hole: Callable[[str, Damage], None] | None = None) -> Iterator[tuple[int, AnyBatch]]:
    directory, base = place
    path = f"{directory}/{names.file_name(base, names.LOG)}"
    if not disk.exists(path):
        return
    with LogFile(disk, path, base) as log:
        for position, found in log.walk():
            if not isinstance(found, Damage):
                yield position, found
            elif on_hole is not None and not found.is_tail:
                on_hole(path, found)


def _refuse(path: str, damage: Damage) -> None:
    raise CorruptRecord(
        f"{path}: bytes {damage.position} to {damage.end} are no valid batch ({damage.reason}); "
        "pass skip_damaged=True to go on behind them, or run milepost repair"
    )


def _index(disk: Disk, directory: str, base: int, suffix: str) -> IndexFile | None:
    path = f"{directory}/{names.file_name(base, suffix)}"
    read = read_offset_index if suffix == names.INDEX else read_time_index
    return read(disk, path, base) if disk.exists(path) else None


def readable(key: str) -> str:
    """Arrow's text is UTF-8 without exception: bytes of a header key that are not become replacement characters."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _name(directory: str) -> str:
    return posixpath.basename(posixpath.abspath(directory))


def _time(timestamp: int) -> int | None:
    return None if timestamp == -1 else timestamp


# Arrow.


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InvalidArgument("tables need pyarrow, which is not installed: pip install 'milepost[arrow]'") from None
    return pyarrow


def _table(columns: dict[str, str], rows: Iterator[Row]) -> pa.Table:
    arrow = _arrow()
    types = {
        LONG: arrow.int64(),
        INT: arrow.int32(),
        TEXT: arrow.string(),
        BYTES: arrow.binary(),
        FLAG: arrow.bool_(),
        TIME: arrow.timestamp("ms", tz="UTC"),
        "headers": arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
    pieces = []
    waiting: list[Row] = []

    def flush() -> None:
        arrays = [arrow.array(column, field.type) for column, field in zip(zip(*waiting, strict=True), schema, strict=True)]
        pieces.append(arrow.RecordBatch.from_arrays(arrays, schema=schema))
        waiting.clear()

    for row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS_AT_ONCE:
            flush()
    if waiting:
        flush()
    return arrow.Table.from_batches(pieces, schema=schema)
