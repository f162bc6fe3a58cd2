"""Putting new segments in the place of old ones so that a crash at any point leaves one set or the other.

    phase  what is renamed                                    if the crash comes after it
    1      new segments `.cleaned` -> `.swap`, last first      loading finishes the swap (before its end: the new ones go)
    2      old segments -> `.deleted`                          loading finishes the swap
    3      new segments `.swap` -> final names, first first    done

Last first in phase 1, because loading drops every `.swap` at or above the lowest `.cleaned`: a swap that did not get
through all renames is undone as a whole. The directory is synced before phase 1, after each segment of it, and after each
phase (Kafka does it once, at the end): otherwise a power failure could keep later renames and lose earlier ones. In phase 3 each
`.log` gets its name durably before its indexes do: while it is a `.swap`, loading takes indexes with final names for old ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from milepost.log.segments import LogSegments
from milepost.segment import names
from milepost.segment.segment import Segment


def swap_segments(segments: LogSegments, new: Sequence[Segment], old: Sequence[Segment]) -> list[Segment]:
    """Replace `old` by `new`, which are complete, flushed and named `.cleaned`; the old ones, now `.deleted`, for removal."""
    disk, directory = new[0].pool.disk, new[0].directory
    disk.sync_directory(directory)
    for segment in sorted(new, key=lambda segment: -segment.base_offset):
        segment.change_suffix(names.SWAP)
        disk.sync_directory(directory)
    removed = []
    for segment in sorted(old, key=lambda segment: segment.base_offset):
        if segment.base_offset in segments:
            segments.remove(segment.base_offset)
            segment.change_suffix(names.DELETED)
            removed.append(segment)
    for segment in new:
        segments.add(segment)
    disk.sync_directory(directory)
    for segment in sorted(new, key=lambda segment: segment.base_offset):
        segment.change_suffix("", step_by_step=True)
    disk.sync_directory(directory)
    return removed
