"""Where damaged bytes go when a query is to go on without them.

    QUARANTINE/page_visits-0/00000000000000000000.log.4096-4300         the bytes, as they stood in the file
    QUARANTINE/page_visits-0/00000000000000000000.log.4096-4300.json    file, bytes, offsets that may be lost, reason

The names say what they hold, so a task that is run again writes the same files again, and two tasks that meet the same damage write
the same bytes. Nothing is written below the log: reading never writes.

Not promised: that the copy is there when the disk of the quarantine is full; the task fails then.
"""

from __future__ import annotations

import json
import logging
import posixpath
from dataclasses import asdict, dataclass

from milepost.files import Disk, make_directories, replace_file
from milepost.inspect.log_file import LogFile
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")

LARGEST_COPY = 64 << 20


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Bytes `position` to `end` of a file that are no valid batch; offsets from `next_offset` up to `resumed_at` may be lost."""

    topic: str
    partition: int
    path: str
    position: int
    end: int
    next_offset: int
    resumed_at: int
    reason: str
    copied: int


def put_aside(
    disk: Disk,
    directory: str,
    partition: TopicPartition,
    log: LogFile,
    position: int,
    end: int,
    offsets: tuple[int, int],
    reason: str,
) -> Quarantined:
    """Copy the bytes and say what they are."""
    size = min(end - position, LARGEST_COPY)
    note = Quarantined(partition.topic, partition.partition, log.path, position, end, *offsets, reason, size)
    target = f"{directory.rstrip('/')}/{partition}"
    make_directories(disk, target)
    name = f"{target}/{posixpath.basename(log.path)}.{position}-{end}"
    replace_file(disk, name, log.read(position, size))
    replace_file(disk, name + ".json", json.dumps(asdict(note)).encode() + b"\n")
    logger.warning("%s: bytes %d to %d are no valid batch (%s); a copy is kept as %s", log.path, position, end, reason, name)
    return note
