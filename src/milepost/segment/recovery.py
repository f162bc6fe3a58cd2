"""Making a segment whole again from its `.log`, the only file that is not derived from another.

Recovery walks the batches from the start, checks size, CRC and offsets, rebuilds both sparse indexes by the per-batch
rule, and hands every batch to a listener (producer state, leader epochs). Where the walk ends before the file does,
there is damage, and two cases are told apart:

    nothing valid behind it   a torn tail, from a write that was cut short: it is cut off
    a valid batch behind it   corruption: Kafka cuts here too and loses what follows. We keep the bytes where they are, copy them
                              aside (`names.hole_name`), note a hole, and go on behind it. A lookup inside the hole says so.

Zeros are "not written" rather than "corrupt": a tail of zeros is cut whenever no offset is missing behind it.

A second recovery changes no byte.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.errors import CorruptRecord, InvalidRecord, SegmentOffsetOverflow
from milepost.files import replace_file
from milepost.record.kernel import find_batch
from milepost.segment import names
from milepost.segment.file_records import Hole
from milepost.segment.index_rebuild import IndexRebuild
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.segment import Segment

if TYPE_CHECKING:
    from milepost.record.batches import AnyBatch

KEPT_TAIL = 1 << 20

BatchListener = Callable[["AnyBatch"], None]
Following = Callable[[], "int | None"]


@dataclass(slots=True)
class Recovered:
    """What a recovery found: the offset after the last valid batch, how much was cut, and the holes it noted.

    `kept`: the file that has what was cut, or its first megabyte; empty for zeros.
    """

    next_offset: int
    bytes_cut: int = 0
    kept: str = ""
    holes: list[Hole] = field(default_factory=list)


def recover(
    segment: Segment, on_batch: BatchListener | None = None, following: Following = lambda: None, next_base: int | None = None
) -> Recovered:
    """Check every batch and rebuild the indexes.

    `following` tells where the next segment with valid batches starts, if there is one; `next_base` where the next
    segment starts, empty or not.
    """
    following = functools.cache(following)
    segment.log.holes = []
    rebuild = IndexRebuild(segment)
    position, next_offset = 0, segment.base_offset
    result = Recovered(next_offset)
    while True:
        position, next_offset = _walk(segment, position, next_offset, rebuild, on_batch, following, next_base)
        size = segment.log.size_in_bytes
        if position >= size:
            break
        following_offset = following()
        resume = _next_valid(segment, position, next_offset, following_offset)
        if resume is None:
            keep = following_offset is not None and following_offset > next_offset
            if not keep:
                result.bytes_cut, result.kept = _cut_tail(segment, position)
                break
            resume = (size, following_offset or next_offset)
        hole = Hole(position, resume[0], next_offset, resume[1])
        _copy_aside(segment, hole)
        segment.log.holes.append(hole)
        result.holes.append(hole)
        position, next_offset = resume
    rebuild.finish()
    segment.txn_index.flush()
    result.next_offset = next_offset
    return result


def _walk(
    segment: Segment,
    position: int,
    next_offset: int,
    rebuild: IndexRebuild,
    on_batch: BatchListener | None,
    following: Following,
    next_base: int | None,
) -> tuple[int, int]:
    """Go as far as the batches are valid; the position and the offset reached."""
    try:
        for start, batch in segment.log.batches(position):
            batch.ensure_valid(segment.log.path)
            first = _first_offset(batch)
            if first < next_offset or batch.last_offset < first:
                break
            if first > next_offset:
                behind = following()
                if behind is not None and behind <= batch.last_offset:
                    break
                if _is_wrong_offset(segment, start + batch.size, next_offset, batch.last_offset):
                    break
            if batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                if next_base is None or next_base <= batch.last_offset:
                    # Only the cleaner ever overfilled segments, and never the last one: this is damage.
                    break
                raise SegmentOffsetOverflow(
                    f"{segment.log.path}: offset {batch.last_offset} does not fit four bytes relative to base {segment.base_offset}",
                    segment.base_offset,
                    batch.last_offset,
                )
            rebuild.add(batch, start)
            if on_batch is not None:
                on_batch(batch)
            position, next_offset = start + batch.size, batch.last_offset + 1
    except (CorruptRecord, InvalidRecord):
        pass
    return position, next_offset


def _is_wrong_offset(segment: Segment, position: int, next_offset: int, last_offset: int) -> bool:
    """Whether the batch at `position`, behind one that jumps ahead to `last_offset`, goes on below that.

    The CRC does not cover the offset, so a valid batch may carry a wrong one. Taken at its word it would make every
    batch behind it look old.
    """
    try:
        behind = segment.log.header_at(position)
        if next_offset <= _first_offset(behind) <= last_offset:
            _, whole = next(segment.log.batches(position, position + behind.size), (0, None))
            return whole is not None and whole.is_valid()
    except (CorruptRecord, InvalidRecord):
        pass
    return False


def has_valid_batch(segment: Segment) -> bool:
    return _search(segment, 0, segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET) >= 0


def _search(segment: Segment, position: int, least: int, most: int) -> int:
    log = segment.log
    if not log.size_in_bytes:
        return -1
    view = log.disk.map(log.handle.fd, log.size_in_bytes)
    try:
        return find_batch(view, position, log.size_in_bytes, least, most)
    finally:
        if isinstance(view, mmap.mmap):
            view.close()


def _next_valid(segment: Segment, position: int, next_offset: int, following_offset: int | None) -> tuple[int, int] | None:
    """Position and first offset of the next whole, valid batch behind damage."""
    log = segment.log
    most = segment.base_offset + MAX_RELATIVE_OFFSET
    if following_offset is not None:
        most = min(most, following_offset - 1)
    found = _search(segment, position + 1, next_offset, most)
    if found < 0:
        return None
    return found, _first_offset(log.header_at(found))


def _first_offset(batch: AnyBatch) -> int:
    """A compressed legacy set tells its first offset only when it is unpacked; its last one is enough to keep offsets rising."""
    return batch.base_offset if batch.magic >= 2 else batch.last_offset


def _cut_tail(segment: Segment, position: int) -> tuple[int, str]:
    """Cut the file; the first bytes of what goes are kept beside it unless they are zeros. How many went, and where they are."""
    tail, kept = segment.log.read(position, KEPT_TAIL), ""
    if tail.strip(b"\0"):
        kept = f"{segment.log.path}.cut-{position}"
        replace_file(segment.pool.disk, kept, tail)
    cut = segment.log.truncate_to(position)
    segment.log.flush()
    return cut, kept


def _copy_aside(segment: Segment, hole: Hole) -> None:
    name = names.hole_name(segment.base_offset, hole.position, hole.end, hole.first_offset, hole.next_offset)
    path = f"{segment.directory}/{name}"
    if not segment.pool.disk.exists(path):
        replace_file(segment.pool.disk, path, segment.log.read(hole.position, hole.end - hole.position))
