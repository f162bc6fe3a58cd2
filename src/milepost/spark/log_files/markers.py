"""How a transaction ended whose marker lies behind what a task reads.

Which transactions were aborted is known from the `.txnindex` files, and one that is missing looks like one that names nothing. So a task
that gave away transactional records without meeting their marker looks for it, batch by batch from where it stopped: usually
a few kilobytes. An ABORT there means that the index was wrong, and the task fails before its rows count.
"""

from __future__ import annotations

from bisect import bisect_right

from milepost.errors import CorruptIndex
from milepost.files import Disk
from milepost.inspect.log_file import Damage, LogFile
from milepost.record.control import ControlType, control_type
from milepost.segment import names
from milepost.spark.decode import overlooked
from milepost.spark.log_files.boundary import batch_at
from milepost.spark.log_files.listing import PartitionFiles, list_partitions
from milepost.spark.log_files.read_settings import ReadSettings
from milepost.spark.log_files.slots import Slots
from milepost.topic_partition import TopicPartition


def ensure_committed(
    disk: Disk, settings: ReadSettings, partition: TopicPartition, offset: int, producers: frozenset[int]
) -> None:
    """Raise CorruptIndex if the next marker of one of the producers, from `offset` on, is an ABORT."""
    listing = list_partitions(disk, settings.paths, settings.follow_symlinks, lambda topic: topic == partition.topic)
    files = listing.partitions.get(partition)
    if files is None:
        return  # deleted meanwhile: nobody can tell any more
    waiting = set(producers)
    bases = [segment.base_offset for segment in files.segments]
    for slot in range(max(bisect_right(bases, offset) - 1, 0), len(bases)):
        if not waiting:
            return
        _search(disk, files, slot, offset, waiting)


def _search(disk: Disk, files: PartitionFiles, slot: int, offset: int, waiting: set[int]) -> None:
    segment = files.segments[slot]
    if not segment.size:
        return
    with LogFile(disk, segment.path, segment.base_offset, files.next_base(slot) - 1) as log:
        size = min(segment.size, log.size)
        entry = Slots.read(disk, files.sibling(segment, names.INDEX), segment.base_offset).floor(offset)
        first = None if entry is None else batch_at(log, entry.position, size)
        start = entry.position if entry is not None and first is not None and first.last_offset <= offset else 0
        for position, batch in log.walk(size, start=start, next_offset=segment.base_offset):
            if (
                isinstance(batch, Damage)
                or not batch.is_control
                or batch.last_offset < offset
                or batch.producer_id not in waiting
            ):
                continue
            kinds = {control_type(record.key) for record in batch.records()}
            if ControlType.ABORT in kinds:
                raise CorruptIndex(f"{segment.path}: batch at byte {position}: {overlooked(batch.producer_id)}")
            if ControlType.COMMIT in kinds:
                waiting.discard(batch.producer_id)
                if not waiting:
                    return
