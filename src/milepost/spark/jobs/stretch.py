"""Runs of segments that a task can take by itself, although a log is one thing from its first record to its last.

What goes from segment to segment is the state of the producers, and a snapshot of it stands at the start of (nearly) every segment. So a
partition is cut where there is one: a task begins with the snapshot of its first segment, and ends by comparing its own state with the
snapshot where the next task begins. If every link holds, the chain does. Without snapshots a partition stays whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.spark.log_files.listing import Listing, PartitionFiles
from milepost.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Stretch:
    """Segments of one partition, by their base offsets; `next_base` is where the next stretch starts, None behind the last one."""

    partition: TopicPartition
    directory: str
    bases: tuple[int, ...]
    next_base: int | None
    size: int
    is_first: bool = True


def stretches(files: PartitionFiles, share: int) -> list[Stretch]:
    """The partition in runs of at least `share` bytes, as far as its snapshots allow."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    snapshots = set(files.snapshots)
    for segment in files.segments:
        if not groups or (sizes[-1] >= share and segment.base_offset in snapshots):
            groups.append([])
            sizes.append(0)
        groups[-1].append(segment.base_offset)
        sizes[-1] += segment.size
    ends = [group[0] for group in groups[1:]] + [None]
    return [
        Stretch(files.partition, files.directory, tuple(group), end, size, number == 0)
        for number, (group, end, size) in enumerate(zip(groups, ends, sizes, strict=True))
    ]


def all_stretches(listing: Listing, share: int) -> list[Stretch]:
    """Of every partition, the largest first: a long task that begins last would keep the others waiting."""
    found = [stretch for files in listing.partitions.values() for stretch in stretches(files, share)]
    return sorted(found, key=lambda stretch: -stretch.size)
