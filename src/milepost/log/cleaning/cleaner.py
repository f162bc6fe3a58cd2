"""One cleaning of one log: afterwards its cleanable part holds only the newest record of each key.

    1  map     the dirty segments are read; the newest offset of every key goes into the offset map, until that is full
    2  group   the segments below the end of the map, from the start of the log, form groups that fit one segment each
    3  filter  each group is copied into a new segment, `<first base>.log.cleaned`, without what does not survive (filtering)
    4  swap    the new segment takes the place of its group (swap); the old files go after `file.delete.delay.ms`

The end of the map becomes the cleaner's checkpoint for this log: the next cleaning starts there. Offsets never
change; gaps appear. The new segment gets the modification time of the last one it replaces, so that rules about the
age of files still hold.

Index entries follow the profile: per batch, or one per written piece (`io_buffer_bytes` of source at a time) as Kafka 2.4.1.

Only what touches the log itself runs through `on_owner`, which runs a step where the log lives and waits for its end. The rest
reads sealed files and writes `.cleaned` ones, through handles of its own, and may run on another thread. `advance` is called with
the size of every piece that is read or written: who wants the cleaning to stop raises CleaningAborted there. Then nothing is left
behind but the groups that were swapped already. A swap that has begun is finished, by `finish_swap` if the owner cannot wait.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from milepost.errors import CorruptRecord, MilepostError, SegmentOffsetOverflow
from milepost.log.cleaning.cleaned_transactions import CleanedTransactions
from milepost.log.cleaning.cleaning_plan import OnOwner, Plan, Source, group_sources, here, make_plan
from milepost.log.cleaning.filtering import BatchFilter, FilterStats, section_of, whole_batch
from milepost.log.cleaning.offset_map import NO_ROOM_LEFT, NOT_RECORDS, OffsetMap
from milepost.log.cleaning.splitting import split_overflowed
from milepost.log.cleaning.swap import Swap
from milepost.record.batch import HEADER_SIZE_UP_TO_MAGIC, RecordBatch
from milepost.record.batches import parse_start
from milepost.record.kernel import scan_records
from milepost.segment import names
from milepost.segment.profile import IndexProfile
from milepost.segment.segment import Segment

if TYPE_CHECKING:
    from milepost.log.cleaning.cleanable import LogToClean
    from milepost.log.log import Log
    from milepost.record.batches import AnyBatch
    from milepost.segment.file_records import FileRecords

DEDUPE_BUFFER_BYTES = 134_217_728
IO_BUFFER_BYTES = 262_144

Advance = Callable[[int], None]


class CleaningAborted(MilepostError):
    """The cleaning was told to stop, or found that it must start again. The log is whole; nothing was cleaned in vain."""


@dataclass(slots=True)
class CleanerStats:
    """What one cleaning did. `end_offset` is how far the log is clean now."""

    end_offset: int = -1
    map_bytes_read: int = 0
    keys: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    filter: FilterStats = field(default_factory=FilterStats)


@dataclass(slots=True)
class Piece:
    """Some bytes of a `.log` file that start at a batch. Whoever reads them says where the whole batches ended."""

    data: bytes
    end: int = 0


class Cleaner:
    def __init__(
        self,
        offset_map: OffsetMap | None = None,
        io_buffer_bytes: int = IO_BUFFER_BYTES,
        *,
        advance: Advance = lambda count: None,
        on_owner: OnOwner = here,
    ):
        self.offset_map = OffsetMap(DEDUPE_BUFFER_BYTES) if offset_map is None else offset_map
        self.io_buffer_bytes = io_buffer_bytes
        self.advance = advance
        self.on_owner = on_owner
        # The owner's: a swap between its first rename and its last.
        self._swap: Swap | None = None

    def clean(self, work: LogToClean) -> CleanerStats:
        """Clean one log. CleaningAborted leaves it as clean as it got; damage raises CorruptRecord and leaves it as it was."""
        stats = CleanerStats()
        plan = make_plan(work, self._on_owner_if_wanted)
        try:
            self._fill_map(plan, stats)
            stats.end_offset = self.offset_map.latest_offset + 1
            self._rewrite(plan, stats)
        finally:
            self.offset_map.clear()
            for source in plan.sources:
                source.segment.close_handles()
        return stats

    def _on_owner_if_wanted(self, step: Callable[[], None]) -> None:
        """A step on the owner's thread, unless the log was taken away since this thread asked last."""

        def if_wanted() -> None:
            self.advance(0)
            step()

        self.on_owner(if_wanted)

    # 1: the map.

    def _fill_map(self, plan: Plan, stats: CleanerStats) -> None:
        first_dirty = plan.first_dirty_offset
        self.offset_map.clear()
        self.offset_map.update_latest_offset(first_dirty - 1)
        transactions = CleanedTransactions(plan.aborted, first_dirty)
        dirty = [source for source in plan.sources if source.next_base > first_dirty]
        for source in dirty:
            log = source.segment.log
            for piece in self._pieces(log, plan.dirty_position if source is dirty[0] else 0):
                piece.end, is_full = self._put_piece(piece.data, first_dirty, transactions, log.path)
                stats.map_bytes_read += piece.end
                stats.keys = len(self.offset_map)
                if is_full:
                    return
            # Offsets that an earlier cleaning or a lost leader left out are behind us too.
            self.offset_map.update_latest_offset(source.next_base - 1)

    def _put_piece(self, data: bytes, first_dirty: int, transactions: CleanedTransactions, where: str) -> tuple[int, bool]:
        """Where the whole batches of the piece end, and whether the map is full."""
        offset_map, at = self.offset_map, 0
        while True:
            at, is_full = offset_map.put_batches(data, at, first_dirty)
            batch = None if is_full else whole_batch(data, at, where)
            if batch is None:
                return at, is_full
            batch.ensure_valid(where)
            is_plain = not transactions.is_discardable(batch) and not batch.is_control
            if is_plain and not self._put(batch, first_dirty):
                return at, True
            if batch.last_offset >= first_dirty:
                offset_map.update_latest_offset(batch.last_offset)
            at += batch.size

    def _put(self, batch: AnyBatch, first_dirty: int) -> bool:
        """Whether the whole batch found room."""
        offset_map = self.offset_map
        if isinstance(batch, RecordBatch):
            data, start, end = section_of(batch)
            status = offset_map.put_records(data, start, end, batch.record_count, batch.base_offset, first_dirty)
            if status == NOT_RECORDS:
                scan_records(data, start, end, batch.record_count, batch.base_timestamp)  # says what is wrong
                raise CorruptRecord(f"{batch.place()}: its {batch.record_count} records cannot be read")
            return bool(status != NO_ROOM_LEFT)
        for record in batch.records():
            if record.key is not None and record.offset >= first_dirty:
                if len(offset_map) >= offset_map.desired:
                    return False
                offset_map.put(record.key, record.offset)
        return True

    def _pieces(self, log: FileRecords, position: int) -> Iterator[Piece]:
        """The file from `position` on, a buffer at a time; each piece starts where its reader found the end of the one before."""
        capacity = self.io_buffer_bytes
        while position < log.size_in_bytes:
            left = log.size_in_bytes - position
            size = HEADER_SIZE_UP_TO_MAGIC
            if left >= size:
                size, _ = parse_start(log.read(position, size), 0, where=f"{log.path}, from position {position}")
            if size > left:
                raise CorruptRecord(f"{log.path}: the batch at position {position} needs {size} bytes, {left} are left")
            while capacity < size:
                capacity *= 2
            piece = Piece(log.read(position, capacity))
            self.advance(len(piece.data))
            yield piece
            assert piece.end >= size, "a piece holds at least one whole batch"
            position += piece.end

    # 2: groups.

    def _rewrite(self, plan: Plan, stats: CleanerStats) -> None:
        config = plan.log.config
        transactions = CleanedTransactions(plan.aborted)
        batch_filter = BatchFilter(
            self.offset_map,
            transactions,
            plan.producers,
            plan.now_ms,
            config.delete_retention_ms,
            plan.upper_bound,
            IndexProfile(config.index_profile) is IndexProfile.PER_APPEND,
            stats.filter,
        )
        sources = [source for source in plan.sources if source.base_offset < stats.end_offset]
        for group in group_sources(sources, config.segment_bytes, config.segment_index_bytes, plan.upper_bound):
            self._clean_group(plan, group, batch_filter, stats)

    # 3 and 4: a new segment in the place of each group.

    def _clean_group(self, plan: Plan, group: list[Source], batch_filter: BatchFilter, stats: CleanerStats) -> None:
        log, pool = plan.log, group[0].segment.pool
        cleaned = Segment.create(
            pool, log.directory, group[0].base_offset, log.config, log.clock, random.Random(0), suffix=names.CLEANED
        )
        batch_filter.transactions.index = cleaned.txn_index
        try:
            for source in group:
                self._copy(source, cleaned, batch_filter, source.mtime * 1000 > plan.legacy_horizon_ms, stats)
            cleaned.seal()
            cleaned.flush()
            for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
                pool.disk.set_mtime(cleaned.path(kind), group[-1].mtime)
            cleaned.close_handles()
        except SegmentOffsetOverflow as overflow:
            cleaned.delete()
            self._on_owner_if_wanted(lambda: self._split(log, source.base_offset))
            raise CleaningAborted(f"{overflow}; the segment was split, and can be cleaned next time") from overflow
        except BaseException:
            with contextlib.suppress(OSError):
                cleaned.delete()
            raise
        # Not within the `try`: once the swap has begun, what is on disk is for the next start to sort out.
        self._put_in_place(log, cleaned, group)
        stats.bytes_written += cleaned.size

    def _copy(
        self, source: Source, cleaned: Segment, batch_filter: BatchFilter, keep_tombstones: bool, stats: CleanerStats
    ) -> None:
        log = source.segment.log
        for piece in self._pieces(log, 0):
            piece.end, survivors = batch_filter.clean_piece(piece.data, keep_tombstones, log.path)
            stats.bytes_read += piece.end
            if survivors:
                # One buffer: a piece may hold more batches than one call of the kernel takes buffers.
                data = b"".join([survivor.data for survivor in survivors])
                cleaned.append([data], [survivor.unit for survivor in survivors])
                self.advance(len(data))

    def _put_in_place(self, log: Log, cleaned: Segment, group: Sequence[Source]) -> None:
        """The owner renames, this thread waits for the disk in between."""
        log.pool.disk.sync_directory(log.directory)
        self.on_owner(lambda: self._begin_swap(log, cleaned, group))
        while (swap := self._swap) is not None:
            failure: OSError | None = None
            try:
                swap.sync()
            except OSError as error:
                failure = error
            self.on_owner(partial(self._go_on_with_swap, log, failure))

    def _begin_swap(self, log: Log, cleaned: Segment, group: Sequence[Source]) -> None:
        first, last = group[0].base_offset, group[-1].base_offset
        old = [segment for segment in log.segments.between(first, last + 1) if segment.base_offset >= first]
        try:
            self.advance(0)
        except CleaningAborted:
            cleaned.delete()
            raise
        if not old:
            cleaned.delete()  # retention was quicker
            return
        new = Segment(log.pool, log.directory, cleaned.base_offset, log.config, log.clock, log.rng, suffix=names.CLEANED)
        self._swap = log.swap([new], old)
        self._go_on_with_swap(log, None)

    def _go_on_with_swap(self, log: Log, failure: OSError | None) -> None:
        swap = self._swap
        if swap is None:
            return  # finished meanwhile; perhaps the directory is gone since
        try:
            if failure is not None:
                raise failure
            swap.step()
        except OSError as error:
            self._swap = None
            raise log.fail(error) from error
        if swap.is_done:
            self._swap = None

    def finish_swap(self, log: Log) -> None:
        """For the owner of a log who needs it now: finish the swap that is under way, if there is one."""
        swap, self._swap = self._swap, None
        if swap is not None:
            try:
                swap.finish()
            except OSError as error:
                raise log.fail(error) from error

    def _split(self, log: Log, base_offset: int) -> None:
        segment = log.segments.floor(base_offset)
        if segment is not None and segment.base_offset == base_offset:
            try:
                split_overflowed(segment, log.segments)
            except OSError as error:
                raise log.fail(error) from error
