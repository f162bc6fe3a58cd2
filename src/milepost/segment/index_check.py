"""Does an index fit its log? Asked for every segment whenever a log is loaded.

Kafka stopped asking in 2.3, to start faster, and so comes up with a wrong end offset over a garbled index. These
questions cost two small reads a segment: are the files there and whole, does the last offset entry point at a batch,
and does the time index reach as far as the log does, and no further. The order of *all* entries is checked by
`SparseIndex.check_order` when the segment is first looked into.
"""

from __future__ import annotations

from milepost.errors import CorruptIndex, CorruptRecord, MilepostError
from milepost.files import Disk
from milepost.record.batch import RecordBatch
from milepost.record.batches import AnyBatch
from milepost.segment.file_records import BatchPosition, FileRecords
from milepost.segment.offset_index import OffsetIndex, OffsetPosition
from milepost.segment.sparse_index import SparseIndex
from milepost.segment.time_index import TimeIndex


def check_sizes(disk: Disk, offset_index: OffsetIndex, time_index: TimeIndex, log_size: int) -> None:
    indexes: tuple[SparseIndex, ...] = (offset_index, time_index)
    for index in indexes:
        try:
            size = disk.stat(index.path).st_size
        except FileNotFoundError:
            if log_size:
                raise CorruptIndex(f"{index.path}: missing, and its log has {log_size} bytes") from None
            continue
        if size % index.entry_size:
            raise CorruptIndex(f"{index.path}: {size} bytes are not a whole number of {index.entry_size}-byte entries")


def check_last_entries(log: FileRecords, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
    start = OffsetPosition(offset_index.base_offset, 0)
    if offset_index.entries:
        start = offset_index.entry(offset_index.entries - 1)
        first = offset_index.entry(0)
        if first.offset < offset_index.base_offset or start.offset < first.offset or not 0 <= first.position <= start.position:
            raise CorruptIndex(f"{offset_index.path}: its entries run from {first} to {start}, which is not upwards")
        if offset_index.entries > 1 and start.offset == first.offset:
            raise CorruptIndex(
                f"{offset_index.path}: entries 0 and {offset_index.entries - 1} both stand for offset {first.offset}"
            )
    ends_at_entry = not offset_index.entries
    newest = offset_index.base_offset - 1
    largest = -1
    last_time, bearer = time_index.last_entry, None
    try:
        for batch in log.positions(start.position):
            if bearer is None and last_time.offset <= batch.last_offset:
                bearer = batch
            ends_at_entry = ends_at_entry or batch.last_offset == start.offset
            if batch.last_offset <= newest:
                raise CorruptIndex(f"{offset_index.path}: its last entry, {start}, does not lead to a run of batches")
            newest, largest = batch.last_offset, max(largest, batch.max_timestamp)
    except CorruptRecord as error:
        raise CorruptIndex(f"{offset_index.path}: its last entry, {start}, is not where a batch starts ({error})") from error
    if not ends_at_entry and not _is_of_a_cleaned_batch(log, start):
        raise CorruptIndex(f"{offset_index.path}: no batch from position {start.position} on ends at offset {start.offset}")
    _check_time(time_index, newest, largest)
    if time_index.entries:
        if last_time.offset < start.offset:
            bearer = _batch_before(log, offset_index, last_time.offset)
        if bearer is None or bearer.max_timestamp != last_time.timestamp:
            there = "no batch is there" if bearer is None else f"the batch there has {bearer.max_timestamp} as its largest"
            raise CorruptIndex(f"{time_index.path}: its last entry is {last_time}, and {there}")


def _is_of_a_cleaned_batch(log: FileRecords, entry: OffsetPosition) -> bool:
    try:
        place = log.search_for(entry.offset, entry.position)
    except CorruptRecord:
        return False  # it lies in a hole
    return place is not None and is_last_record_kept(next(log.batches(place.position, place.position + place.size))[1], entry.offset)


def is_last_record_kept(batch: AnyBatch, offset: int) -> bool:
    """Whether `offset` is the last record of a batch from whose end compaction took some.

    Kafka 2.4.1's cleaner writes it into the offset index, where the batch keeps its old, higher last offset. Lookups stay right.
    """
    if not isinstance(batch, RecordBatch) or batch.record_count > batch.last_offset_delta:
        return False
    try:
        records = batch.records()
    except MilepostError:
        return False  # the batch is damaged, and is judged elsewhere
    return bool(records) and records[-1].offset == offset


def misleads(log: FileRecords, offset_index: OffsetIndex, entry: OffsetPosition, found: BatchPosition | None) -> bool:
    """Whether an entry led a lookup past the batch that was looked for, to `found`.

    The batch at an entry never reaches beyond the entry's offset, unless compaction took the records behind that.
    """
    if found is not None:
        return found.position == entry.position and found.last_offset > entry.offset and not was_cleaned(log, entry)
    # A walk that found nothing may have started inside a batch, or at one that is damaged: the entry before shows which.
    end = 0
    for place in log.positions(offset_index.lookup(entry.offset - 1).position):
        if place.position >= entry.position:
            return place.position > entry.position or (place.last_offset > entry.offset and not was_cleaned(log, entry))
        end = place.position + place.size
    return end > entry.position


def was_cleaned(log: FileRecords, entry: OffsetPosition) -> bool:
    return is_last_record_kept(next(log.batches(entry.position))[1], entry.offset)


def _batch_before(log: FileRecords, offset_index: OffsetIndex, offset: int) -> BatchPosition | None:
    """The batch of the newest record, when that lies before the last index entry: records came out of the order of their times."""
    try:
        return log.search_for(offset, offset_index.lookup(offset).position)
    except CorruptRecord as error:
        raise CorruptIndex(f"{offset_index.path}: it does not lead to offset {offset} ({error})") from error


def _check_time(time_index: TimeIndex, newest: int, largest: int) -> None:
    last = time_index.last_entry
    if largest > last.timestamp:
        raise CorruptIndex(f"{time_index.path}: its last entry is {last}, and the log holds timestamp {largest}")
    if not time_index.entries:
        return
    first = time_index.entry(0)
    if last.timestamp < first.timestamp or first.offset < time_index.base_offset or not first.offset <= last.offset <= newest:
        raise CorruptIndex(f"{time_index.path}: its entries run from {first} to {last} in a segment that ends at offset {newest}")
