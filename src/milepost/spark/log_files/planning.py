"""From ranges of offsets to pieces of files, and from pieces to tasks of about equal bytes.

    range                 offsets of one partition
    ├ piece               its part in one segment: bytes from the index entry below its first offset to one above its last
    │ └ smaller pieces    cut where an index entry lies nearest to a multiple of the share, at a batch that was looked at
    └ task                one large piece, or several small ones next to each other

The share is `maxBytesPerPartition`; without it, what gives two tasks a core, but no less than 8 MB (starting a task costs as much as
reading that) and no more than 128 MB. `minPartitions` makes it smaller. `maxRecordsPerPartition` cuts offsets first, and its pieces stay
tasks of their own.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.files import Disk
from milepost.inspect.log_file import LogFile
from milepost.inspect.paths import MAX_OFFSET
from milepost.record.batches import AnyBatch
from milepost.segment import names
from milepost.spark.log_files.boundary import batch_at
from milepost.spark.log_files.listing import PartitionFiles, SegmentFile
from milepost.spark.log_files.piece import Piece
from milepost.spark.log_files.slots import Slots
from milepost.spark.offset_range import OffsetRange

logger = logging.getLogger("milepost.spark")

LEAST_SHARE, LARGEST_SHARE = 8 << 20, 128 << 20
TASKS_PER_CORE = 2


def share_of(total: int, max_bytes: int | None, min_partitions: int | None) -> int:
    """Bytes per task."""
    fitting = min(max(total // (TASKS_PER_CORE * (os.cpu_count() or 1)), LEAST_SHARE), LARGEST_SHARE)
    share = fitting if max_bytes is None else max_bytes
    if min_partitions is not None:
        share = min(share, max(total // min_partitions, 1))
    return share


def pieces_of(disk: Disk, files: PartitionFiles, offsets: OffsetRange, active_end: int) -> list[Piece]:
    """One piece per segment that the range touches; `active_end` is the number of valid bytes of the last one."""
    segments = files.segments
    bases = [segment.base_offset for segment in segments]
    found = []
    for slot in range(max(bisect_right(bases, offsets.start) - 1, 0), len(segments)):
        if bases[slot] >= offsets.end:
            break
        size = active_end if slot == len(segments) - 1 else segments[slot].size
        start, end = max(offsets.start, bases[slot]), min(offsets.end, files.next_base(slot))
        if size and start < end:
            found.append(_piece(disk, files, slot, start, end, size))
    return [piece for piece in found if piece.size > 0]


def _piece(disk: Disk, files: PartitionFiles, slot: int, start: int, end: int, size: int) -> Piece:
    segment, next_base = files.segments[slot], files.next_base(slot)
    position, end_position, is_exact = 0, size, True
    needs_end = end < next_base
    if start > segment.base_offset or needs_end:
        slots = Slots.read(disk, files.sibling(segment, names.INDEX), segment.base_offset)
        floor = slots.floor(start)
        if floor is not None and floor.position < size:
            with LogFile(disk, segment.path, segment.base_offset, next_base - 1) as log:
                batch = batch_at(log, floor.position, size)
            if batch is not None and _first_offset(batch) <= start:
                position = floor.position
            else:
                _distrust(files, segment, floor.position)
        beyond = slots.beyond(end) if needs_end else None
        if beyond is not None and position < beyond.position < size:
            end_position, is_exact = beyond.position, False
    return Piece(files.partition, segment, next_base, start, end, position, end_position, size, is_exact)


def cut(disk: Disk, files: PartitionFiles, piece: Piece, share: int) -> list[Piece]:
    """The piece in parts of about `share` bytes."""
    parts = -(-piece.size // share)
    if parts <= 1:
        return [piece]
    slots = Slots.read(disk, files.sibling(piece.segment, names.INDEX), piece.segment.base_offset)
    found = []
    rest = piece
    with LogFile(disk, piece.segment.path, piece.segment.base_offset, piece.next_base - 1) as log:
        for number in range(1, parts):
            entry = slots.near(piece.position + piece.size * number // parts)
            if entry is None or not rest.position < entry.position < rest.end_position:
                continue
            batch = batch_at(log, entry.position, piece.data_end)
            offset = MAX_OFFSET if batch is None else _first_offset(batch)
            if offset > entry.offset:
                _distrust(files, piece.segment, entry.position)
            elif rest.start < offset < rest.end:
                found.append(replace(rest, end=offset, end_position=entry.position, is_exact=True))
                rest = replace(rest, start=offset, position=entry.position)
    return [*found, rest]


def end_after(disk: Disk, files: PartitionFiles, piece: Piece, size: int) -> int:
    """The offset that a reader reaches who takes about `size` bytes of the piece, and one batch at least."""
    slots = Slots.read(disk, files.sibling(piece.segment, names.INDEX), piece.segment.base_offset)
    entry = slots.near(piece.position + size)
    if entry is None or entry.position <= piece.position or entry.offset <= piece.start:
        entry = slots.beyond(piece.start + 1)
    return piece.end if entry is None or entry.position <= piece.position else min(max(entry.offset, piece.start + 1), piece.end)


def _first_offset(batch: AnyBatch) -> int:
    """A set of an old format is unpacked for it; one that cannot be is no place to begin or to cut."""
    try:
        return batch.base_offset
    except (CorruptRecord, InvalidRecord, UnsupportedCompressionType):
        return MAX_OFFSET


def _distrust(files: PartitionFiles, segment: SegmentFile, position: int) -> None:
    index = files.sibling(segment, names.INDEX)
    logger.warning("%s: it names byte %d, where the log has no batch that fits; it is not used there", index, position)


def pack(pieces: Iterable[Piece], share: int) -> list[list[Piece]]:
    """Tasks: small pieces one behind the other until they make a share."""
    tasks: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if not tasks or piece.size > room:
            tasks.append([])
            room = share
        tasks[-1].append(piece)
        room -= piece.size
    return tasks
