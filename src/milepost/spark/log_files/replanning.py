"""A second plan for offsets whose file changed under a task: made by the task, with the files as they are now.

Files that overlap are looked at once more, too: the cleaner may have swapped segments while they were listed. If they are still the
same files, they are wrong.
"""

from __future__ import annotations

import logging

from milepost.errors import KafkaStorage, OffsetOutOfRange
from milepost.files import Disk
from milepost.segment import names
from milepost.spark.log_files.listing import list_partitions
from milepost.spark.log_files.log_end import find_log_end
from milepost.spark.log_files.piece import Piece
from milepost.spark.log_files.planning import pieces_of
from milepost.spark.log_files.read_settings import ReadSettings
from milepost.spark.offset_range import OffsetRange

logger = logging.getLogger("milepost.spark")


class SegmentChanged(KafkaStorage):
    """A file is not what it was when the query was planned."""


class SegmentsOverlap(SegmentChanged):
    """A file holds offsets of the next one."""


def plan_again(disk: Disk, settings: ReadSettings, piece: Piece, change: SegmentChanged) -> list[Piece]:
    """Pieces for the offsets of `piece` that are still there; those that are not are data loss."""
    offsets = piece.offsets
    listing = list_partitions(disk, settings.paths, settings.follow_symlinks, lambda topic: topic == offsets.partition.topic)
    files = listing.partitions.get(offsets.partition)
    if files is None or not files.segments:
        _lose(settings, offsets, change, "the partition is gone")
        return []
    if isinstance(change, SegmentsOverlap):
        same = [
            slot
            for slot, each in enumerate(files.segments)
            if (each.inode, each.path) == (piece.segment.inode, piece.segment.path)
        ]
        if same and files.next_base(same[0]) == piece.next_base:
            raise change
    first, last = files.segments[0].base_offset, files.segments[-1]
    if first > offsets.start:
        gone = OffsetRange(offsets.partition, offsets.start, min(first, offsets.end))
        _lose(settings, gone, change, f"the log starts at {first} now")
    end = find_log_end(disk, last, files.sibling(last, names.INDEX))
    if end.next_offset < offsets.end:
        gone = OffsetRange(offsets.partition, max(end.next_offset, offsets.start), offsets.end)
        _lose(settings, gone, change, f"the log ends at {end.next_offset} now")
    left = OffsetRange(offsets.partition, max(first, offsets.start), min(offsets.end, end.next_offset))
    return pieces_of(disk, files, left, end.position) if left.size > 0 else []


def _lose(settings: ReadSettings, offsets: OffsetRange, change: KafkaStorage, what: str) -> None:
    sentence = f"{offsets.partition}: offsets {offsets.start} to {offsets.end - 1} are asked for, and {what} ({change})"
    if settings.fail_on_data_loss:
        raise OffsetOutOfRange(f"data loss: {sentence}. To read what is left, set failOnDataLoss to false")
    logger.warning("data loss: %s; the query goes on without them", sentence)
