"""What Kafka's dump tool remarks about an index while it shows it: entries that do not fit the `.log` beside it.

    offset index   the batch at an entry's position must end at the entry's offset
    time index     a batch must end at the entry's offset, and its largest timestamp must be the entry's; timestamps must rise

These are the tool's rules, not those of `verify`: entries that Kafka 2.4 wrote for several batches at once, or with the offset
of a single record, are remarked here although lookups through them are right.
"""

from __future__ import annotations

import posixpath
from array import array
from bisect import bisect_left
from dataclasses import dataclass

from milepost.files import Disk
from milepost.inspect.index_files import IndexFile, offset_entries, time_entries
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.paths import MAX_OFFSET
from milepost.segment import names


@dataclass(frozen=True, slots=True)
class Remark:
    """`title` groups remarks of one kind about one file; `found` is -1 when the log has nothing there."""

    path: str
    title: str
    expected_name: str
    expected: int
    found_name: str
    found: int
    is_damage: bool = False


class Batches:
    """Position, last offset and largest timestamp of every batch of a log file, in columns."""

    def __init__(self, disk: Disk, path: str, base_offset: int):
        self.positions, self.last_offsets, self.timestamps = array("q"), array("q"), array("q")
        with LogFile(disk, path, base_offset) as log:
            for position, found in log.walk(check_offsets=False):
                # The tool looks at headers only: a batch with a wrong CRC counts.
                batch = found.batch if isinstance(found, Damage) else found
                if batch is not None:
                    self.positions.append(position)
                    self.last_offsets.append(min(batch.last_offset, MAX_OFFSET))
                    self.timestamps.append(batch.max_timestamp)


def _batches_of(disk: Disk, index: IndexFile) -> Batches | None:
    directory, name = posixpath.split(index.path)
    path = posixpath.join(directory, name[: name.index(".")] + names.LOG)
    return Batches(disk, path, index.base_offset) if disk.exists(path) else None


def on_offset_index(disk: Disk, index: IndexFile) -> list[Remark]:
    batches = _batches_of(disk, index)
    if batches is None:
        return []
    remarks = []
    for entry in offset_entries(index):
        slot = bisect_left(batches.positions, entry.position)
        is_start = slot < len(batches.positions) and batches.positions[slot] == entry.position
        found = batches.last_offsets[slot] if is_start else -1
        if found != entry.offset:
            remarks.append(Remark(index.path, "Mismatches in", "Index offset", entry.offset, "log offset", found, found < 0))
    return remarks


def on_time_index(disk: Disk, index: IndexFile) -> list[Remark]:
    batches = _batches_of(disk, index)
    if batches is None:
        return []
    remarks = []
    previous = -1
    for entry in time_entries(index):
        slot = bisect_left(batches.last_offsets, entry.offset)
        last_offset = batches.last_offsets[slot] if slot < len(batches.last_offsets) else -1
        if last_offset != entry.offset:
            title = "The following indexed offsets are not found in the log."
            remarks.append(Remark(index.path, title, "Indexed offset", entry.offset, "found log offset", last_offset, last_offset < 0))
        else:
            if batches.timestamps[slot] != entry.timestamp:
                found, title = batches.timestamps[slot], "Found timestamp mismatch in"
                remarks.append(Remark(index.path, title, "Index timestamp", entry.timestamp, "log timestamp", found, True))
            if previous >= entry.timestamp:
                name, title = "Previously indexed timestamp", "Found out of order timestamp in"
                remarks.append(Remark(index.path, title, "Index timestamp", entry.timestamp, name, previous, True))
        previous = entry.timestamp
    return remarks
