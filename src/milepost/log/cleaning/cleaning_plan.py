"""What a cleaning needs to know of its log before it begins, and which segments it puts together.

The owner of the log is asked for what only it knows, a little at a time. The rest is read from the files of sealed segments,
through handles that belong to the cleaning, and may happen on another thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.files import HandlePool
from milepost.frozen_dataclass import frozen_dataclass
from milepost.log.cleaning.filtering import LastRecord
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.segment import Segment
from milepost.segment.txn_index import AbortedTransaction, TxnIndex

if TYPE_CHECKING:
    from milepost.log.cleaning.cleanable import LogToClean
    from milepost.log.log import Log

OPEN_FILES = 64
PRODUCERS_AT_A_TIME = 1000

# Runs a step where the log lives, and returns when it has ended.
OnOwner = Callable[[Callable[[], None]], None]


def here(step: Callable[[], None]) -> None:
    step()


@frozen_dataclass
class Source:
    """A sealed segment to be cleaned, through handles of the cleaner's own."""

    segment: Segment
    next_base: int
    mtime: float

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset


@frozen_dataclass
class Plan:
    """Everything a cleaning needs to know of its log, taken at one moment."""

    log: Log
    now_ms: int
    first_dirty_offset: int
    upper_bound: int
    sources: list[Source]
    dirty_position: int
    aborted: list[AbortedTransaction]
    producers: dict[int, LastRecord]
    legacy_horizon_ms: float  # old-format tombstones go from segments whose files are older than this


def make_plan(work: LogToClean, on_owner: OnOwner = here) -> Plan:
    log, first_dirty, upper_bound = work.log, work.first_dirty_offset, work.first_uncleanable_offset
    pool = HandlePool(log.pool.disk, OPEN_FILES)
    bases: list[tuple[int, int]] = []
    positions: list[int] = []
    indexes: list[TxnIndex] = []
    producer_ids: list[int] = []
    producers: dict[int, LastRecord] = {}

    def look() -> None:
        bases.extend(
            (segment.base_offset, log.segments.next_base(segment) or upper_bound)
            for segment in log.segments
            if segment.base_offset < upper_bound
        )
        first = log.segments.floor(first_dirty)
        place = None if first is None else first.locate(first_dirty)
        positions.append(0 if first is None else first.size if place is None else place.position)
        indexes.extend(segment.txn_index.reader(pool) for segment in log.segments if not segment.txn_index.is_empty)
        producer_ids.extend(log.producers.producers)

    on_owner(look)
    for start in range(0, len(producer_ids), PRODUCERS_AT_A_TIME):
        # What a producer did since the plan was begun lies behind the part that is cleaned: it says the same about it, or less.
        on_owner(partial(_note_producers, log, producer_ids[start : start + PRODUCERS_AT_A_TIME], producers))
    sources = []
    for base_offset, next_base in bases:
        segment = Segment(pool, log.directory, base_offset, log.config, log.clock, random.Random(0))
        sources.append(Source(segment, next_base, pool.disk.stat(segment.log.path).st_mtime))
    clean = [source for source in sources if source.base_offset < first_dirty]
    return Plan(
        log,
        log.clock.now_ms(),
        first_dirty,
        upper_bound,
        sources,
        positions[0],
        aborted=[aborted for index in indexes for aborted in index.transactions()],
        producers=producers,
        legacy_horizon_ms=clean[-1].mtime * 1000 - log.config.delete_retention_ms if clean else 0.0,
    )


def _note_producers(log: Log, producer_ids: Sequence[int], found: dict[int, LastRecord]) -> None:
    for producer_id in producer_ids:
        entry = log.producers.producers.get(producer_id)
        if entry is not None:
            found[producer_id] = LastRecord(entry.last_data_offset if entry.batches else None, entry.epoch)


def group_sources(sources: Sequence[Source], max_bytes: int, max_index_bytes: int, upper_bound: int) -> list[list[Source]]:
    """Consecutive segments that fit one segment together, by their sizes before anything is removed."""
    groups: list[list[Source]] = []
    sizes = (0, 0, 0)
    for number, source in enumerate(sources):
        segment = source.segment
        added = (
            segment.size,
            segment.offset_index.entries * segment.offset_index.entry_size,
            segment.time_index.entries * segment.time_index.entry_size,
        )
        # The last offset is not known without reading; that of the next segment bounds it.
        end = sources[number + 1].base_offset if number + 1 < len(sources) else upper_bound
        total = (sizes[0] + added[0], sizes[1] + added[1], sizes[2] + added[2])
        fits = total[0] <= max_bytes and total[1] <= max_index_bytes and total[2] <= max_index_bytes
        if groups and fits and (not segment.size or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET):
            groups[-1].append(source)
            sizes = total
        else:
            groups.append([source])
            sizes = added
    return groups
