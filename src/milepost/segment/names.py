"""The names of the files of a partition directory.

A file's stem is the base offset of its segment (for a snapshot: the offset up to which it is valid), in at least
twenty digits, so that names sort like offsets. The suffix says what it holds; a second suffix says that it is on its
way in or out:

    .log .index .timeindex .txnindex .snapshot
    .cleaned   being written by the cleaner or a split; worthless after a crash
    .swap      complete, on its way to replace older segments; the swap is finished after a crash
    .deleted   no longer part of the log, waiting for its removal

Two more of our own hold what recovery took out of the way (Kafka ignores them):

    .log.hole-POSITION-END-FIRST-NEXT   a copy of damaged bytes with whole batches behind them
    .log.cut-POSITION                   the start of a torn tail that was cut off
"""

from __future__ import annotations

import re

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
UNSETTLED = (CLEANED, SWAP, DELETED)

_HOLE = re.compile(r"(\d{20,})\.log\.hole-(\d+)-(\d+)-(\d+)-(\d+)$")
_NUMBERED = re.compile(r"(\d+)\.")


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The number before the first dot, or None for a file that has none."""
    found = _NUMBERED.match(name)
    return int(found[1]) if found else None


def is_segment_file(name: str, suffix: str) -> bool:
    """Whether this is exactly a segment's file: twenty digits or more, then the suffix and nothing behind it."""
    if not name.endswith(suffix):
        return False
    stem = name[: -len(suffix)]
    return len(stem) >= 20 and stem.isascii() and stem.isdigit()


def hole_name(base_offset: int, position: int, end: int, first_offset: int, next_offset: int) -> str:
    return file_name(base_offset, f"{LOG}.hole-{position}-{end}-{first_offset}-{next_offset}")


def parse_hole_name(name: str) -> tuple[int, int, int, int, int] | None:
    """Base offset, position, end, first offset and next offset, or None when the name is something else."""
    found = _HOLE.match(name)
    if found is None:
        return None
    base_offset, position, end, first_offset, next_offset = map(int, found.groups())
    return base_offset, position, end, first_offset, next_offset
