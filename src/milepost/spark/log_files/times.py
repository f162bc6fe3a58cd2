"""The first record that is not older than a time, by Kafka's rule, in the files of one partition.

Times need not rise along a log. What holds always: a `.timeindex` entry says that everything newer than its timestamp comes after
its offset, and the last entry of a sealed segment is the largest timestamp in it. So the first segment whose largest timestamp is
not older holds the answer, and within it the walk over the batches starts at the index entry. The index of the active segment may lack its
newest entries, so that segment is walked to its end.

A batch that compaction emptied keeps its largest timestamp. A segment that is new enough only by such a batch has no answer, and then
there is none at all: Kafka does not look into the next segment.

The index of a sealed segment is believed when its last entry stands for a batch that has this very timestamp; otherwise the
batches are asked. Damage that the walk meets could hold the record: that is an error, unless damage is to be passed over.
"""

from __future__ import annotations

from milepost.errors import CorruptRecord, KafkaStorage
from milepost.files import Disk
from milepost.inspect import index_files
from milepost.inspect.index_files import IndexFile
from milepost.inspect.log_file import Damage, LogFile
from milepost.record.kernel import check_entries
from milepost.segment import names
from milepost.spark.log_files.boundary import batch_at
from milepost.spark.log_files.listing import PartitionFiles
from milepost.spark.log_files.slots import Slots


def offset_for_time(
    disk: Disk,
    files: PartitionFiles,
    active_end: int,
    start_offset: int,
    time: int,
    *,
    pass_damage: bool = False,
    as_kafka: bool = True,
) -> int | None:
    """`active_end` is the number of valid bytes of the last segment. Not `as_kafka`: emptied batches end no search."""
    last = len(files.segments) - 1
    for slot, segment in enumerate(files.segments):
        size = active_end if slot == last else segment.size
        if size == 0 or files.next_base(slot) <= start_offset:
            continue
        times = _read_times(disk, files.sibling(segment, names.TIME_INDEX), segment.base_offset)
        slots = Slots.read(disk, files.sibling(segment, names.INDEX), segment.base_offset)
        with LogFile(disk, segment.path, segment.base_offset, files.next_base(slot) - 1) as log:
            if slot != last and times is not None:
                largest = _largest(times, slots, log, size)
                if largest is None:
                    times = None
                elif largest < time:
                    continue
            position = _start(times, slots, log, size, time, start_offset)
            found, is_new_enough = _search(log, size, position, start_offset, time, pass_damage)
        if found is not None or (is_new_enough and as_kafka):
            return found
    return None


def _search(log: LogFile, size: int, position: int, start_offset: int, time: int, pass_damage: bool) -> tuple[int | None, bool]:
    """The offset, if there is one, and whether some batch says that it has a record so new."""
    is_new_enough = False
    for at, batch in log.walk(size, start=position, next_offset=log.base_offset):
        if isinstance(batch, Damage):
            if not (batch.is_tail and batch.is_zero) and not pass_damage:
                raise CorruptRecord(
                    f"{log.path}: bytes {at} to {batch.end} are no valid batch ({batch.reason}), and a record of time {time} may have been "
                    "there; mode=quarantine goes on behind them"
                )
        elif batch.max_timestamp >= time:
            is_new_enough = True
            for record in batch.records(where=log.path) if batch.last_offset >= start_offset else ():
                if record.timestamp >= time and record.offset >= start_offset:
                    return record.offset, True
    return None, is_new_enough


def _read_times(disk: Disk, path: str, base_offset: int) -> IndexFile | None:
    """The time index, or None when it cannot be used."""
    try:
        found = index_files.read_time_index(disk, path, base_offset)
    except (FileNotFoundError, KafkaStorage):
        return None
    usable = found.entries and check_entries(found.data, found.entries, found.entry.size) < 0
    return found if usable else None


def _largest(times: IndexFile, slots: Slots, log: LogFile, size: int) -> int | None:
    """The largest timestamp of a sealed segment as its index says, if the batch there agrees."""
    timestamp, relative_offset = _entry(times, times.entries - 1)
    offset = times.base_offset + relative_offset
    entry = slots.floor(offset)
    position = entry.position if entry is not None else 0
    while (batch := batch_at(log, position, size)) is not None:
        if batch.last_offset >= offset:
            return timestamp if batch.max_timestamp == timestamp else None
        position += batch.size
    return None


def _start(times: IndexFile | None, slots: Slots, log: LogFile, size: int, time: int, start_offset: int) -> int:
    """Where the walk starts: at a batch before which nothing is both as new as `time` and at `start_offset` or behind."""
    offset = log.base_offset
    if times is not None:
        low, high = -1, times.entries - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if _entry(times, middle)[0] < time:
                low = middle
            else:
                high = middle - 1
        if low >= 0:
            offset += _entry(times, low)[1]
    offset = max(offset, start_offset)
    entry = slots.floor(offset)
    if entry is None:
        return 0
    batch = batch_at(log, entry.position, size)
    return entry.position if batch is not None and batch.base_offset <= offset else 0


def _entry(times: IndexFile, slot: int) -> tuple[int, int]:
    timestamp, relative_offset = times.entry.unpack_from(times.data, slot * times.entry.size)
    return timestamp, relative_offset
