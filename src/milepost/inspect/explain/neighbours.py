"""What stands next to the answer of a lookup, and why it is not the answer: the records and the index entries on both sides.

    record before   the last record in front of the answer, if need be in an earlier segment
    record after    the first one behind it
    entry before    of each index that was searched: it would do as well, at the price of a longer walk
    entry after     of each index that was searched: it is past the target, so the walk could start behind what is looked for

An entry of an offset index marks the *last* offset of a batch. The batch behind the "entry after" may therefore hold the
target, and often does: the index has no way to know, which is why the walk starts one entry early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from milepost.errors import CorruptRecord
from milepost.log.log import Log
from milepost.log.reading import Found
from milepost.segment.segment import Segment
from milepost.segment.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from milepost.segment.trace import IndexSearch, SegmentChoice, Step


@dataclass(frozen=True, slots=True)
class WhyNot:
    """A neighbour and the reason against it. For a record, `position` is where its batch starts in its segment."""

    candidate: str
    reason: str
    offset: int
    timestamp: int | None = None
    segment: int | None = None
    position: int | None = None
    slot: int | None = None


def neighbours(log: Log, target: int, by_time: bool, answer: Found | None, steps: Sequence[Step]) -> Iterator[WhyNot]:
    if answer is not None:
        before = record_before(log, answer)
        if before is not None:
            yield _record("record before", before, _why_not_before(log, target, by_time, before))
        after = _record_after(log, answer)
        if after is not None:
            yield _record("record after", after, _why_not_after(target, by_time, answer, after))
    for step in steps:
        if isinstance(step, IndexSearch):
            yield from _entries(step, base_of(steps, step))


def is_time_index(search: IndexSearch) -> bool:
    return search.entry_size == TIME_ENTRY_SIZE


def base_of(steps: Sequence[Step], step: Step) -> int:
    """The base offset of the segment that a step happened in: the one chosen last before it."""
    base = 0
    for earlier in steps:
        if isinstance(earlier, SegmentChoice):
            base = earlier.base_offset
        if earlier is step:
            break
    return base


# Records.


def _record(candidate: str, found: Found, reason: str) -> WhyNot:
    return WhyNot(candidate, reason, found.offset, found.timestamp, found.segment, found.position)


def _why_not_before(log: Log, target: int, by_time: bool, before: Found) -> str:
    if before.offset < log.start_offset:
        return f"lies below the log start {log.start_offset}: deleted, though its bytes are still there"
    if not by_time:
        return f"its offset is below {target}"
    if before.timestamp >= target:
        return "is not older, yet the indexes lead past it: run milepost verify"
    return "carries no timestamp" if before.timestamp < 0 else f"is {target - before.timestamp:,} ms too old"


def _why_not_after(target: int, by_time: bool, answer: Found, after: Found) -> str:
    if by_time and after.timestamp < target:
        return f"is {target - after.timestamp:,} ms too old, although it comes later: timestamps need not rise"
    kind = "is not older either" if by_time else f"is not below {target} either"
    return f"{kind}, but {answer.offset} comes first"


def _record_after(log: Log, found: Found) -> Found | None:
    try:
        return log.find(offset=found.offset + 1)
    except CorruptRecord:
        return None


def record_before(log: Log, found: Found) -> Found | None:
    """The last record in front of `found`, in whatever segment it is."""
    segment = log.segments.floor(found.segment)
    start = 0 if segment is None else segment.offset_index.lookup(found.offset - 1).position
    limit = found.position
    while segment is not None:
        nearest = _last_below(segment, start, limit, found.offset)
        if nearest is None and start > 0:
            # Everything since the index entry was emptied by cleaning: look through the whole segment once.
            nearest = _last_below(segment, 0, limit, found.offset)
        if nearest is not None:
            return nearest
        segment = log.segments.lower(segment.base_offset)
        if segment is not None:
            start, limit = segment.offset_index.lookup(segment.offset_index.last_offset).position, segment.size
    return None


def _last_below(segment: Segment, start: int, limit: int, offset: int) -> Found | None:
    places = []
    for place in segment.log.positions(start):
        if place.position > limit:
            break
        places.append(place)
    for place in reversed(places):
        _, batch = next(segment.log.batches(place.position, place.position + place.size))
        below = [record for record in batch.records() if record.offset < offset]
        if below:
            last = below[-1]
            return Found(last.offset, last.timestamp, segment.base_offset, place.position, batch.partition_leader_epoch)
    return None


# Index entries.


def _entries(search: IndexSearch, base: int) -> Iterator[WhyNot]:
    by_time = is_time_index(search)
    index = "time" if by_time else "offset"
    if search.slot is not None and search.previous_entry is not None:
        second = search.previous_entry[1]
        further = f"leads back to offset {base + second}" if by_time else f"lies {search.entry[1] - second:,} bytes further back"
        reason = f"is right too, but {further}"
        yield _entry(f"{index} entry before", reason, search.slot - 1, search.previous_entry, base, by_time)
    if search.next_entry is not None:
        first, second = search.next_entry
        if by_time:
            reason = f"is newer than asked: the record looked for may come before offset {base + second}"
        else:
            reason = f"its batch ends at {base + first}, past {base + search.target}, and might begin past it too"
        slot = 0 if search.slot is None else search.slot + 1
        yield _entry(f"{index} entry after", reason, slot, search.next_entry, base, by_time)


def _entry(candidate: str, reason: str, slot: int, entry: tuple[int, int], base: int, by_time: bool) -> WhyNot:
    first, second = entry
    if by_time:
        return WhyNot(candidate, reason, base + second, timestamp=first, slot=slot)
    return WhyNot(candidate, reason, base + first, position=second, slot=slot)
