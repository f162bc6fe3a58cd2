"""One segment of a partition log: a `.log` file, its three indexes, and the rules that tie them together.

The sparse rule: when more than `index.interval.bytes` were appended since the last entry, the next batch gets one:
(its last offset, where it starts) in the offset index, and (the largest timestamp so far, its offset) in the time
index if that timestamp grew. The count starts at zero whenever a segment is opened, so the first batch never has an
entry.

Index files are made when the segment is first appended to, grow only through this class, and are trimmed when it rolls or closes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.config.topic import LogConfig
from milepost.errors import CorruptIndex, SegmentOffsetOverflow
from milepost.files import HandlePool, remove_file
from milepost.record.batch import NO_TIMESTAMP
from milepost.segment import index_check, names
from milepost.segment.append_unit import IndexedUnit, merged
from milepost.segment.file_records import BatchPosition, FileRecords, FoundRecord, SegmentRead
from milepost.segment.index_rebuild import rebuild_indexes
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from milepost.segment.profile import IndexProfile
from milepost.segment.time_index import TimeIndex, TimestampOffset
from milepost.segment.trace import LogScan, Trace
from milepost.segment.txn_index import TxnIndex

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer


class Segment:
    def __init__(
        self,
        pool: HandlePool,
        directory: str,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        rng: random.Random,
        *,
        suffix: str = "",
    ):
        self.pool = pool
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.clock = clock
        self.profile = IndexProfile(config.index_profile)
        self.jitter_ms = _jitter(config, rng)
        self.max_segment_ms = config.max_segment_ms - self.jitter_ms
        self.created_ms = clock.now_ms()
        self.bytes_since_last_index_entry = 0
        self._suffix = suffix
        self._max: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._order_checked = False
        self.is_active = False
        handle = pool.handle(self.path(names.LOG), os.O_RDWR)
        self.log = FileRecords(handle, _size(pool, handle.path) or 0)
        max_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(pool, self.path(names.INDEX), base_offset, max_bytes)
        self.time_index = TimeIndex(pool, self.path(names.TIME_INDEX), base_offset, max_bytes)
        self.txn_index = TxnIndex(pool, self.path(names.TXN_INDEX), base_offset, _size(pool, self.path(names.TXN_INDEX)) or 0)
        self.offset_index.open_sealed(_size(pool, self.offset_index.path) or 0)
        self.time_index.open_sealed(_size(pool, self.time_index.path) or 0)

    @classmethod
    def create(
        cls,
        pool: HandlePool,
        directory: str,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        rng: random.Random,
        *,
        suffix: str = "",
        sync: bool = True,
    ) -> Segment:
        """A new, empty segment. Its name is durable, unless the caller syncs it later (W-5 in `tests/crash/test_write_order.py`)."""
        for kind in names.SEGMENT_SUFFIXES:
            remove_file(pool.disk, f"{directory}/{names.file_name(base_offset, kind)}{suffix}")
        segment = cls(pool, directory, base_offset, config, clock, rng, suffix=suffix)
        segment.log.handle.flags |= os.O_CREAT
        fd = segment.log.handle.fd
        if config.preallocate:
            pool.disk.truncate(fd, config.segment_bytes)
        if sync:
            pool.disk.sync_directory(directory)
        return segment

    def update_config(self, config: LogConfig) -> None:
        """Take new settings; the size of index files that exist stays."""
        self.config = config
        self.profile = IndexProfile(config.index_profile)
        self.max_segment_ms = config.max_segment_ms - self.jitter_ms

    def path(self, kind: str) -> str:
        return f"{self.directory}/{names.file_name(self.base_offset, kind)}{self._suffix}"

    @property
    def size(self) -> int:
        return self.log.size_in_bytes

    # Appending.

    def append(self, buffers: Sequence[ReadableBuffer], units: Sequence[IndexedUnit]) -> None:
        """Write batches at the end, and whatever index entries they earn. A failure leaves the segment as it was."""
        size, first = units[0].size, units[0].last_offset
        if len(units) > 1:
            size = sum(unit.size for unit in units)
            if self.profile is IndexProfile.PER_APPEND:
                units = [merged(units)]
        last_offset = units[-1].last_offset
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise SegmentOffsetOverflow(
                f"{self.log.path}: offset {last_offset} does not fit four bytes relative to base {self.base_offset}; roll first",
                self.base_offset,
                last_offset,
            )
        if not self.is_active:
            self.activate()
        position = self.log.size_in_bytes
        if position == 0:
            self._first_timestamp = units[0].max_timestamp
        self.log.append(buffers, size)
        try:
            for unit in units:
                self._index(unit, position)
                position += unit.size
        except OSError:
            self.truncate_to(first)
            raise

    def _index(self, unit: IndexedUnit, position: int) -> None:
        """The sparse rule, for one batch at `position`."""
        largest = self._max or self.max_so_far
        if unit.max_timestamp > largest.timestamp:
            self._max = largest = TimestampOffset(unit.max_timestamp, unit.offset_of_max_timestamp)
        if self.bytes_since_last_index_entry > self.config.index_interval_bytes and not self.is_index_full:
            self.offset_index.append(unit.last_offset, position)
            self.time_index.maybe_append(largest.timestamp, largest.offset)
            self.bytes_since_last_index_entry = 0
        self.bytes_since_last_index_entry += unit.size

    @property
    def is_index_full(self) -> bool:
        # Spelled out, not asked of the two `is_full`: this runs for every append.
        offsets, times = self.offset_index, self.time_index
        return offsets.entries >= offsets.max_entries or times.entries >= times.max_entries - 1

    @property
    def max_so_far(self) -> TimestampOffset:
        """The largest timestamp of the segment and the offset that brought it."""
        if self._max is None:
            self._max = self.time_index.last_entry
        return self._max

    @max_so_far.setter
    def max_so_far(self, found: TimestampOffset) -> None:
        self._max = found

    # Becoming the active segment, and ceasing to be.

    def activate(self) -> None:
        """Make room in the index files."""
        self._check_order()
        self.offset_index.open_active()
        self.time_index.open_active()
        self.is_active = True

    def seal(self) -> None:
        """The segment ends here: closing time entry, indexes and log trimmed."""
        self.activate()
        self.time_index.maybe_append(self.max_so_far.timestamp, self.max_so_far.offset, closing=True)
        self.offset_index.seal()
        self.time_index.seal()
        self.log.trim()
        self.is_active = False

    def should_roll(self, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Whether an append of `size` bytes belongs into a new segment."""
        # Kafka compares with >, not >= : a segment filled to the byte does not roll.
        filled = self.log.size_in_bytes
        if filled > self.config.segment_bytes - size or (filled and self.waited_ms(max_timestamp) > self.max_segment_ms):
            return True
        offsets, times = self.offset_index, self.time_index
        if offsets.entries >= offsets.max_entries or times.entries >= times.max_entries - 1:
            return True
        return not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def waited_ms(self, max_timestamp: int) -> int:
        """How long the segment has been open, in the records' time if its first batch has one, else by the clock."""
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        if first is not None and first >= 0:
            return max_timestamp - first
        return self.clock.now_ms() - self.created_ms

    @property
    def first_timestamp(self) -> int | None:
        """The largest timestamp of the first batch; None while the segment is empty."""
        if self._first_timestamp is None and self.log.size_in_bytes:
            first = next(self.log.positions(), None)  # not simply the batch at position 0: the log may begin with a hole
            self._first_timestamp = None if first is None else first.max_timestamp
        return self._first_timestamp

    # Looking up.

    def locate(self, offset: int, trace: Trace | None = None) -> BatchPosition | None:
        """The first batch whose last offset is not below `offset`: by the index as near as it knows, then by walking."""
        self._check_order()
        entry = self.offset_index.lookup(offset, trace)
        if trace is not None:
            trace.add(self._walk_to(offset, entry.position))
        found = self.log.search_for(offset, entry.position)
        if entry.position and index_check.misleads(self.log, self.offset_index, entry, found):
            rebuild_indexes(self)
            found = self.log.search_for(offset, self.offset_index.lookup(offset).position)
        if found is None:
            self.log.ensure_walked(offset, self.offset_index.lookup(offset).position)
        return found

    def _walk_to(self, offset: int, start: int) -> LogScan:
        """What `search_for` is going to do, as a step: noted before it, because it raises inside damaged bytes."""
        skipped, position = 0, None
        for place in self.log.positions(start):
            if place.last_offset >= offset:
                position = place.position
                break
            skipped += 1
        end = self.log.size_in_bytes if position is None else position
        return LogScan(self.log.path, start, position, end - start, skipped)

    def position_of(self, offset: int) -> int:
        """Where the batch or the damage starts that holds `offset`; the end of the file when nothing reaches that far."""
        self._check_order()
        entry = self.offset_index.lookup(offset)
        position = self.log.start_of(offset, entry.position)
        reaches_on = entry.position and position == entry.position and self.log.header_at(position).last_offset > entry.offset
        if reaches_on and not index_check.was_cleaned(self.log, entry):
            rebuild_indexes(self)
            position = self.log.start_of(offset, self.offset_index.lookup(offset).position)
        return position

    def read(self, offset: int, max_bytes: int, max_position: int | None = None, min_one: bool = True) -> SegmentRead | None:
        """Batches from the one that holds `offset`, or None when no batch reaches that far."""
        first = self.locate(offset)
        if first is None:
            return None
        limit = max(max_bytes, first.size) if min_one else max_bytes
        end = self.log.size_in_bytes if max_position is None else max_position
        for hole in self.log.holes:
            if hole.position > first.position:
                end = min(end, hole.position)
        return SegmentRead(first, self.log.slice(first.position, min(end - first.position, limit)), limit < first.size)

    def find_by_timestamp(self, timestamp: int, start_offset: int, trace: Trace | None = None) -> FoundRecord | None:
        """The first record from `start_offset` on that is not older than `timestamp`: both indexes, then a walk."""
        self._check_order()
        newest_before = self.time_index.lookup(timestamp, trace)
        start = self.offset_index.lookup(max(newest_before.offset, start_offset), trace).position
        found, walk = self.log.search_for_timestamp(timestamp, start_offset, start)
        if trace is not None:
            trace.add(walk)
        return found

    def next_offset(self) -> int:
        """One past the last offset of the segment."""
        last = None
        for batch in self.log.positions(self.offset_index.lookup(self.offset_index.last_offset).position):
            last = batch
        if last is not None:
            return last.last_offset + 1
        return self.log.holes[-1].next_offset if self.log.holes else self.base_offset

    @property
    def largest_timestamp(self) -> int:
        """Of the records, or of the file when they carry none."""
        if self.max_so_far.timestamp > NO_TIMESTAMP:
            return self.max_so_far.timestamp
        return int(self.pool.disk.stat(self.log.path).st_mtime * 1000)

    # Checking and cutting.

    def check_indexes(self) -> None:
        """Raise CorruptIndex when an index does not fit the log; cheap enough for every segment at every start."""
        index_check.check_sizes(self.pool.disk, self.offset_index, self.time_index, self.log.size_in_bytes)
        index_check.check_last_entries(self.log, self.offset_index, self.time_index)
        self.txn_index.check()

    def _check_order(self) -> None:
        """All entries of a sealed index, once, when it is first used: the cost of looking is paid by who looks."""
        if not self._order_checked:
            self._order_checked = True
            try:
                self.offset_index.check_order()
                self.time_index.check_order()
            except CorruptIndex:
                rebuild_indexes(self)

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and everything behind it; the number of bytes that went."""
        self.activate()
        position = self.position_of(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        cut = self.log.truncate_to(position)
        if self.log.size_in_bytes == 0:
            self.created_ms = self.clock.now_ms()
            self._first_timestamp = None
        self.bytes_since_last_index_entry = 0
        self._max = self._rescan_max()
        return cut

    def _rescan_max(self) -> TimestampOffset:
        found = self.time_index.last_entry
        for batch in self.log.positions(self.offset_index.lookup(found.offset).position):
            if batch.max_timestamp > found.timestamp:
                found = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return found

    # Files.

    def flush(self) -> None:
        self.log.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def change_suffix(self, suffix: str, step_by_step: bool = False) -> None:
        """Rename all files of the segment, in the order that loading relies on: `.log` first, durably first if `step_by_step`."""
        for _ in self.renaming(suffix):
            if step_by_step:
                self.pool.disk.sync_directory(self.directory)

    def renaming(self, suffix: str) -> Iterator[None]:
        """The same in two steps: the `.log`, then, when the caller has made that durable, the rest."""
        disk, old = self.pool.disk, self._suffix
        for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
            source = self.path(kind)
            target = source[: len(source) - len(old)] + suffix
            if disk.exists(source):
                disk.rename(source, target)
            if kind == names.LOG:
                self.log.handle.path = target
                yield
        self._suffix = suffix
        self.offset_index.rename(self.path(names.INDEX))
        self.time_index.rename(self.path(names.TIME_INDEX))
        self.txn_index.rename(self.path(names.TXN_INDEX))

    def delete(self) -> None:
        self.close_handles()
        for kind in names.SEGMENT_SUFFIXES:
            remove_file(self.pool.disk, self.path(kind))

    def finish(self, directory: str) -> None:
        """Its log is closed, or was taken away: the files are in `directory` now, for readers only."""
        self.directory = directory
        self.log.handle.finish(self.path(names.LOG))
        self.offset_index.finish(self.path(names.INDEX))
        self.time_index.finish(self.path(names.TIME_INDEX))
        self.txn_index.finish(self.path(names.TXN_INDEX))

    def close_handles(self) -> None:
        self.log.handle.close()
        self.offset_index.close_handle()
        self.time_index.close_handle()
        self.txn_index.close()


def _jitter(config: LogConfig, rng: random.Random) -> int:
    """Chosen once per segment, so that partitions created together do not all roll together."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return rng.getrandbits(31) % most if most > 0 else 0


def _size(pool: HandlePool, path: str) -> int | None:
    try:
        return pool.disk.stat(path).st_size
    except FileNotFoundError:
        return None
