"""Reading a log: by offset, by time, and what a reader with read_committed must leave out.

Three bounds, each an offset that a read stops before: the log end (a follower), the high watermark (a consumer), the
last stable offset (a consumer with read_committed). A read starts at a batch boundary, never spans segments, and may
end inside a batch unless whole batches are asked for.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from milepost.errors import InvalidArgument, KafkaStorage, OffsetOutOfRange
from milepost.frozen_dataclass import frozen_dataclass
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.segments import LogSegments
from milepost.record.batch import NO_TIMESTAMP
from milepost.record.batches import iter_batches
from milepost.record.control import ControlType, control_type
from milepost.record.records import Record
from milepost.segment.file_records import FileSlice
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.segment import Segment
from milepost.segment.trace import SegmentChoice, Step, Trace
from milepost.segment.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from milepost.log.epochs import LeaderEpochCache
    from milepost.record.batches import AnyBatch

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5
READ_SIZE = 1 << 20


class Isolation(enum.Enum):
    LOG_END = "log end"
    UNCOMMITTED = "uncommitted"
    COMMITTED = "committed"


@frozen_dataclass
class OffsetMetadata:
    """An offset and where it lies; segment and position are -1 when only the offset is known."""

    offset: int
    segment_base: int = -1
    position: int = -1


@frozen_dataclass
class FetchData:
    """The answer to a read. `aborted` is None unless the read was for committed data."""

    start: OffsetMetadata
    records: FileSlice | None = None
    first_entry_incomplete: bool = False
    aborted: list[AbortedTransaction] | None = None

    @property
    def size(self) -> int:
        return self.records.size if self.records else 0

    @property
    def data(self) -> bytes:
        try:
            return self.records.read() if self.records else b""
        except OSError as error:
            raise KafkaStorage(f"{self.records.records.path if self.records else ''}: {error.strerror or error}") from error

    @property
    def batches(self) -> list[AnyBatch]:
        """The whole batches; a piece of one at the end is left out."""
        return list(iter_batches(self.data))


@frozen_dataclass
class Found:
    """The record a lookup ends at, and where it lies. `steps` is filled when the lookup was traced."""

    offset: int
    timestamp: int
    segment: int
    position: int
    leader_epoch: int = -1
    steps: list[Step] = field(default_factory=list)


@frozen_dataclass
class TimestampAndOffset:
    timestamp: int
    offset: int
    leader_epoch: int


P = ParamSpec("P")
R = TypeVar("R")


def reported(method: Callable[Concatenate[ReadableLog, P], R]) -> Callable[Concatenate[ReadableLog, P], R]:
    """An error of the disk becomes one of ours. Reading changes nothing, so the log stays as it is."""

    @functools.wraps(method)
    def checked(self: ReadableLog, /, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(self, *arguments, **named)
        except OSError as error:
            raise KafkaStorage(f"{error.filename or self.directory}: {error.strerror or error}") from error

    return checked


class ReadableLog:
    """The half of a log that only looks."""

    segments: LogSegments
    producers: ProducerStateManager
    epochs: LeaderEpochCache
    start_offset: int
    end_offset: int
    high_watermark: int
    directory: str
    is_failed: bool

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below this offset is decided."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = self.producers.first_unstable_offset
        return None if unstable is None else max(unstable, self.start_offset)

    def bound_for(self, isolation: Isolation) -> int:
        if isolation is Isolation.LOG_END:
            return self.end_offset
        return self.last_stable_offset if isolation is Isolation.COMMITTED else self.high_watermark

    @reported
    def read(
        self, offset: int, max_bytes: int = READ_SIZE, isolation: Isolation | str = Isolation.UNCOMMITTED, min_one: bool = True
    ) -> FetchData:
        """Batches from the one that holds `offset`, up to the bound of the isolation. `min_one`: one whole batch, however large."""
        if max_bytes < 0:
            raise InvalidArgument(f"cannot read {max_bytes} bytes")
        if self.is_failed:
            raise KafkaStorage(f"{self.directory}: the directory is offline after an error of the disk")
        isolation = Isolation(isolation)
        segment = self.segments.floor(offset)
        if offset < self.start_offset or offset > self.end_offset or segment is None:
            raise OffsetOutOfRange(f"{self.directory}: offset {offset} is outside {self.start_offset} to {self.end_offset}")
        committed = isolation is Isolation.COMMITTED
        bound = self.bound_for(isolation)
        if offset >= bound:
            return FetchData(self.metadata_of(offset), aborted=[] if committed else None)
        bound_segment = self.segments.floor(bound)
        assert bound_segment is not None, "a bound above the log start lies in a segment"
        while segment is not None:
            if segment.base_offset > bound_segment.base_offset:
                break
            max_position = self._position_of(bound, segment) if segment is bound_segment else None
            found = segment.read(offset, max_bytes, max_position, min_one)
            if found is not None:
                start = OffsetMetadata(offset, segment.base_offset, found.first.position)
                aborted = self._aborted(segment, offset, found.first.position, found.data.size) if committed else None
                return FetchData(start, found.data, found.first_entry_incomplete, aborted)
            segment = self.segments.higher(segment.base_offset)
        return FetchData(self.metadata_of(self.end_offset), aborted=[] if committed else None)

    def metadata_of(self, offset: int) -> OffsetMetadata:
        segment = self.segments.floor(offset)
        if segment is None or not self.start_offset <= offset <= self.end_offset:
            return OffsetMetadata(offset)
        return OffsetMetadata(offset, segment.base_offset, self._position_of(offset, segment))

    def _position_of(self, offset: int, segment: Segment) -> int:
        """Where the batch that holds `offset` starts: a bound inside a batch leaves the whole batch out."""
        if offset >= self.end_offset:
            return segment.size
        return segment.position_of(offset)

    def _aborted(self, segment: Segment, offset: int, position: int, size: int) -> list[AbortedTransaction]:
        beyond = segment.offset_index.upper_bound(OffsetPosition(offset, position), size)
        if beyond is not None:
            upper_bound = beyond.offset
        else:
            following = self.segments.next_base(segment)
            upper_bound = self.end_offset if following is None else following
        found = []
        for candidate in self.segments.from_offset(segment.base_offset):
            search = candidate.txn_index.collect(offset, upper_bound)
            found += search.transactions
            if search.is_complete:
                break
        return found

    def records(
        self, start: int | None = None, end: int | None = None, isolation: Isolation | str = Isolation.UNCOMMITTED
    ) -> Iterator[Record]:
        """The records from `start` up to, not including, `end`: never control records, and no aborted ones for `committed`."""
        isolation = Isolation(isolation)
        offset = self.start_offset if start is None else start
        while True:
            stop = self.bound_for(isolation) if end is None else min(end, self.bound_for(isolation))
            if offset >= stop:
                return
            fetched = self.read(offset, READ_SIZE, isolation)
            batches = fetched.batches
            if not batches:
                return
            aborted = AbortedFilter(fetched.aborted or [])
            for batch in batches:
                if aborted.drops(batch) or batch.is_control:
                    continue
                for record in batch.records():
                    if record.offset >= stop:
                        return
                    if record.offset >= offset:
                        yield record
            offset = batches[-1].next_offset

    @reported
    def find(self, *, offset: int | None = None, time: int | None = None, trace: bool = False) -> Found | None:
        """The first record at or after an offset, or the first that is not older than a time (epoch milliseconds)."""
        if (offset is None) == (time is None):
            raise InvalidArgument("find takes an offset or a time, one of the two")
        notes = Trace() if trace else None
        found = self._find_offset(offset, notes) if offset is not None else self._find_time(time or 0, notes)
        if found is None or notes is None:
            return found
        return Found(found.offset, found.timestamp, found.segment, found.position, found.leader_epoch, notes.steps)

    @reported
    def explain(
        self, *, offset: int | None = None, time: int | None = None, trace: Trace | None = None
    ) -> tuple[Found | None, list[Step]]:
        """The answer of `find` and its steps, also when there is no answer. A `trace` of the caller's has them even after an error."""
        notes = Trace() if trace is None else trace
        found = self._find_offset(offset, notes) if offset is not None else self._find_time(time or 0, notes)
        return found, notes.steps

    def _find_offset(self, offset: int, trace: Trace | None) -> Found | None:
        offset = max(offset, self.start_offset)
        segment = self.segments.floor(offset)
        if trace is not None and segment is not None:
            trace.add(
                SegmentChoice(
                    "floor", offset, segment.base_offset, len(self.segments), next_base_offset=self.segments.next_base(segment)
                )
            )
        while segment is not None:
            place = segment.locate(offset, trace)
            start = segment.size if place is None else place.position
            rejected = 0
            for position, batch in segment.log.batches(start):
                for record in batch.records():
                    if record.offset >= offset:
                        if trace is not None:
                            trace.reject(rejected)
                        return Found(record.offset, record.timestamp, segment.base_offset, position, batch.partition_leader_epoch)
                    rejected += 1
            segment = self.segments.higher(segment.base_offset)
            if trace is not None and segment is not None:
                following = self.segments.next_base(segment)
                trace.add(SegmentChoice("next", offset, segment.base_offset, 1, next_base_offset=following))
        return None

    def _find_time(self, time: int, trace: Trace | None) -> Found | None:
        for compared, segment in enumerate(self.segments.from_offset(self.start_offset), 1):
            # One that cleaning has emptied is as new as its file, and holds nothing: Kafka's search ends there.
            if not segment.size or segment.largest_timestamp < time:
                continue
            if trace is not None:
                trace.add(SegmentChoice("first not older", time, segment.base_offset, compared, segment.largest_timestamp))
            found = segment.find_by_timestamp(time, self.start_offset, trace)
            if found is None:
                return None
            return Found(found.offset, found.timestamp, segment.base_offset, found.position, found.leader_epoch)
        return None

    @reported
    def offset_for(self, timestamp: int) -> TimestampAndOffset | None:
        """What ListOffsets answers: for a time, or for one of the special values above. None when no record is that new."""
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            earliest = self.epochs.earliest
            known = earliest is not None and earliest.start_offset <= self.start_offset
            return TimestampAndOffset(NO_TIMESTAMP, self.start_offset, earliest.epoch if earliest is not None and known else -1)
        if timestamp == LATEST:
            latest = self.epochs.latest_epoch
            return TimestampAndOffset(NO_TIMESTAMP, self.end_offset, -1 if latest is None else latest)
        if timestamp == LATEST_TIERED:
            return TimestampAndOffset(NO_TIMESTAMP, -1, -1)
        if timestamp == MAX_TIMESTAMP:
            return self._newest()
        found = self._find_time(timestamp, None)
        return None if found is None else TimestampAndOffset(found.timestamp, found.offset, found.leader_epoch)

    def _newest(self) -> TimestampAndOffset | None:
        """The earliest record that carries the largest timestamp of the log, as Kafka answers it: also one below the log start."""
        newest = max(self.segments, key=lambda segment: segment.max_so_far.timestamp)
        if newest.max_so_far.timestamp <= NO_TIMESTAMP:
            return None
        # From the start of the segment's index entry for that offset: the batch before may hold the same timestamp.
        found = newest.find_by_timestamp(newest.max_so_far.timestamp, newest.base_offset)
        return None if found is None else TimestampAndOffset(found.timestamp, found.offset, found.leader_epoch)


class AbortedFilter:
    """Which batches of a fetch belong to transactions that were aborted, told from the list that came with it."""

    def __init__(self, aborted: list[AbortedTransaction]):
        self._waiting = sorted(aborted, key=lambda transaction: -transaction.first_offset)
        self._producers: set[int] = set()

    def drops(self, batch: AnyBatch) -> bool:
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            self._producers.add(self._waiting.pop().producer_id)
        if batch.producer_id not in self._producers or not batch.is_transactional:
            return False
        if batch.is_control:
            for record in batch.records():
                if control_type(record.key) is ControlType.ABORT:
                    self._producers.discard(batch.producer_id)
        return not batch.is_control
