"""Where the active segment ends: behind its last whole, valid batch.

What stands behind that is a write in progress, one that a crash cut short, or zeros of a preallocated file: no data in any case.
Damage with valid batches behind it is something else; the end lies behind those, and whoever reads the damage finds it.

The walk begins at the last index entry, if a valid batch stands there, so it is short; what a stream found at its last
trigger is begun from again while the file is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.files import Disk
from milepost.inspect.log_file import Damage, LogFile
from milepost.record.batch import RecordBatch
from milepost.spark.log_files.boundary import batch_at
from milepost.spark.log_files.listing import SegmentFile
from milepost.spark.log_files.slots import Slots


@dataclass(frozen=True, slots=True)
class LogEnd:
    """`position` bytes of the file are data and lead up to `next_offset`."""

    segment: SegmentFile
    position: int
    next_offset: int


def find_log_end(disk: Disk, segment: SegmentFile, index_path: str, known: LogEnd | None = None) -> LogEnd:
    if segment.size == 0:
        return LogEnd(segment, 0, segment.base_offset)
    with LogFile(disk, segment.path, segment.base_offset) as log:
        size = min(segment.size, log.size)
        if known is not None and _is_same(known, segment, size):
            found = _walk(log, segment, size, known.position, known.next_offset)
            # Nothing valid behind the old end: perhaps nothing came, perhaps the file was cut and written anew.
            if found.position > known.position or size == known.position:
                return found
        position, next_offset = 0, segment.base_offset
        last = Slots.read(disk, index_path, segment.base_offset).last()
        if last is not None:
            batch = batch_at(log, last.position, size)
            if isinstance(batch, RecordBatch) and segment.base_offset <= batch.base_offset <= last.offset:
                position, next_offset = last.position, batch.base_offset
        return _walk(log, segment, size, position, next_offset)


def _walk(log: LogFile, segment: SegmentFile, size: int, position: int, next_offset: int) -> LogEnd:
    for start, found in log.walk(size, start=position, next_offset=next_offset):
        if not isinstance(found, Damage):
            position, next_offset = start + found.size, found.next_offset
    return LogEnd(segment, position, next_offset)


def _is_same(known: LogEnd, segment: SegmentFile, size: int) -> bool:
    identity = (known.segment.inode, known.segment.device, known.segment.base_offset)
    return identity == (segment.inode, segment.device, segment.base_offset) and known.position <= size
