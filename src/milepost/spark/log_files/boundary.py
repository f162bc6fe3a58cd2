"""Is there a batch at a position that an index names? Nothing is cut, begun or skipped at a position that was not looked at."""

from __future__ import annotations

from milepost.errors import CorruptRecord
from milepost.inspect.log_file import LogFile
from milepost.record.batch import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC, RecordBatch
from milepost.record.batches import AnyBatch
from milepost.record.legacy import LegacyBatch


def batch_at(log: LogFile, position: int, end: int) -> AnyBatch | None:
    """The batch that starts at `position`, if one does that is whole before `end` and has the right CRC."""
    if not 0 <= position <= end - HEADER_SIZE_UP_TO_MAGIC:
        return None
    start = log.read(position, HEADER_SIZE_UP_TO_MAGIC)
    size, magic = LOG_OVERHEAD + int.from_bytes(start[8:12], "big", signed=True), start[16]
    if magic > MAGIC or not HEADER_SIZE_UP_TO_MAGIC <= size <= end - position:
        return None
    try:
        data = log.read(position, size)
        batch: AnyBatch = RecordBatch(data) if magic == MAGIC else LegacyBatch(data)
    except CorruptRecord:
        return None
    return batch if batch.is_valid() else None
