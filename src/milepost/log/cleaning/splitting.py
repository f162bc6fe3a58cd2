"""Splitting a segment whose offsets no longer fit four bytes relative to its base.

Old compaction could merge segments until they spanned more than 2^31 offsets; their indexes cannot describe them. The
batches are copied into new segments, a new one wherever the next batch would not fit, and swapped in by the cleaner's
protocol, so that a crash leaves either the old segment or all of the new ones.
"""

from __future__ import annotations

import random

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.log.cleaning.swap import Swap
from milepost.log.segments import LogSegments
from milepost.segment import names
from milepost.segment.append_unit import AppendUnit
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.segment import Segment


def split_overflowed(segment: Segment, segments: LogSegments) -> list[Segment]:
    """Replace the segment by pieces that fit; the pieces."""
    pieces: list[Segment] = []
    overflows = False
    mtime = segment.pool.disk.stat(segment.log.path).st_mtime
    for _, batch in segment.log.batches():
        first = batch.base_offset
        overflows = overflows or batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        if not pieces or batch.last_offset - pieces[-1].base_offset > MAX_RELATIVE_OFFSET:
            pieces.append(_piece(segment, first))
        unit = AppendUnit(batch.last_offset, batch.size, batch.max_timestamp, batch.last_offset)
        pieces[-1].append([batch.view()], [unit])
    total = sum(piece.size for piece in pieces)
    if not overflows or total != segment.size:
        for piece in pieces:
            piece.delete()
    if not overflows:
        raise InvalidArgument(
            f"{segment.log.path}: all offsets fit relative to base {segment.base_offset}; there is nothing to split"
        )
    if total != segment.size:
        raise KafkaStorage(
            f"{segment.log.path}: {total} of {segment.size} bytes were whole batches; repair it before it is split"
        )
    for piece in pieces:
        piece.seal()
        piece.flush()
        segment.pool.disk.set_mtime(piece.log.path, mtime)
    replaced: list[Segment] = []
    Swap(segments, pieces, [segment], replaced.append).finish()
    for old in replaced:
        old.delete()
    return pieces


def _piece(segment: Segment, base_offset: int) -> Segment:
    return Segment.create(
        segment.pool, segment.directory, base_offset, segment.config, segment.clock, random.Random(0), suffix=names.CLEANED
    )
