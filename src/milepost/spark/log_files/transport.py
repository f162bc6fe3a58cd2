"""Reading a log from its files: which partitions, from where to where, in which tasks.

Every call looks at the directories again, so a stream sees new segments and partitions, unless the transport is told to hold still. What
is remembered between calls (`memory`: which files there are; where the active segment ended; which transactions were open there) is
checked against the files before it is used.

The end of a partition is the checkpointed high watermark of its data directory where that names it, and otherwise the last whole batch:
a copied or an embedded log has no checkpoint, and nobody else's records in it. Records between the two are mentioned once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk
from milepost.log.directory.data_directory import DataDirectory
from milepost.segment import names
from milepost.spark.log_files.listing import (
    EXPECTED,
    Listing,
    ListingMemory,
    PartitionFiles,
    SegmentFile,
    is_data_directory,
    list_partitions,
)
from milepost.spark.log_files.log_end import LogEnd, find_log_end
from milepost.spark.log_files.memory import Remembered, is_settled
from milepost.spark.log_files.piece import Piece
from milepost.spark.log_files.planning import cut, end_after, pack, pieces_of, share_of
from milepost.spark.log_files.read_settings import ReadSettings
from milepost.spark.log_files.split import FileSplit
from milepost.spark.log_files.times import offset_for_time
from milepost.spark.log_files.transactions import OpenTransactions, aborted_transactions, open_transactions
from milepost.spark.offset_range import OffsetRange, divide
from milepost.spark.options import HIGH_WATERMARK, QUARANTINE, SourceOptions
from milepost.spark.subscription import Subscription
from milepost.spark.transport import Split, Transport
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")
T = TypeVar("T")

ATTEMPTS = 3
SMALLER_SHARES = 12
"""How often tasks are made anew, of three quarters of the bytes, until there are as many as minPartitions asks for."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What of a partition can be read: offsets from `start` up to, not including, `high_watermark`."""

    start: int
    end: LogEnd | None
    high_watermark: int

    @property
    def active_end(self) -> int:
        return self.end.position if self.end is not None else 0


class LogFilesTransport(Transport):
    def __init__(self, options: SourceOptions, disk: Disk | None = None):
        self.options = options
        self.disk = disk or Disk()
        self._ends: dict[TopicPartition, LogEnd] = {}
        self._open: dict[TopicPartition, OpenTransactions] = {}
        self._told: set[TopicPartition] = set()
        self._held: Listing | None = None
        self._is_nothing_told = False
        self._memory = ListingMemory(self.disk)
        self._owners: Remembered[DataDirectory] = Remembered(self.disk)
        self._sure: dict[TopicPartition, LogEnd] = {}
        """Ends of files that had not been written to for a while: they hold as long as size and time of the file do."""

    # What is there.

    def hold_still(self) -> None:
        self._held = self._list()

    def listing(self) -> Listing:
        return self._list() if self._held is None else self._held

    def _list(self) -> Listing:
        return list_partitions(
            self.disk, self.options.paths, self.options.follow_symlinks, self.options.subscription.wants, self._memory
        )

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        where = ", ".join(self.options.paths)
        try:
            found = subscription.chosen(self.listing().partitions, where)
            if not found:
                self._tell_nothing(where)
            return found
        except InvalidArgument:
            # The sentence names the topics that are there, which costs a look at all of them.
            everything = list_partitions(self.disk, self.options.paths, self.options.follow_symlinks)
            return subscription.chosen(everything.partitions, where)

    def remaining(self, subscription: Subscription) -> list[TopicPartition]:
        return subscription.existing(self.listing().partitions)

    def _tell_nothing(self, where: str) -> None:
        """No rows without a word would look like an empty log. A stream may wait for what comes."""
        everything = list_partitions(self.disk, self.options.paths, self.options.follow_symlinks).partitions
        if not everything and not any(is_data_directory(self.disk, path) for path in self.options.paths):
            sentence = f"{where}: there is no partition in it; {EXPECTED}"
            if self._held is not None:
                raise KafkaStorage(sentence)
        else:
            topics = ", ".join(sorted({partition.topic for partition in everything})[:8]) or "none"
            sentence = f"{where}: no topic is chosen; topics there: {topics}"
        if not self._is_nothing_told:
            self._is_nothing_told = True
            logger.warning("%s", sentence)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._each(partitions, lambda files, extent: extent.start)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._each(partitions, self._latest)

    def _latest(self, files: PartitionFiles, extent: Extent) -> int:
        if extent.end is not None and extent.high_watermark < extent.end.next_offset and files.partition not in self._told:
            self._told.add(files.partition)
            logger.warning(
                "%s: offsets %d to %d lie above the checkpointed high watermark and are left out; endOfLog=logEnd reads them",
                files.partition,
                extent.high_watermark,
                extent.end.next_offset - 1,
            )
        if not self.options.read_committed:
            return extent.high_watermark
        found = open_transactions(self.disk, files, extent.high_watermark, self._open.get(files.partition))
        self._open[files.partition] = found
        return found.last_stable_offset(extent.start)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self.find_times(times, as_kafka=True)

    def find_times(self, times: Mapping[TopicPartition, int], *, as_kafka: bool) -> dict[TopicPartition, int | None]:
        """As a broker answers, which overlooks records behind an emptied batch, or without overlooking any."""

        def find(files: PartitionFiles, extent: Extent) -> int | None:
            found = offset_for_time(
                self.disk,
                files,
                extent.active_end,
                extent.start,
                times[files.partition],
                pass_damage=self.options.mode == QUARANTINE,
                as_kafka=as_kafka,
            )
            return found if found is not None and found < self._latest(files, extent) else None

        return self._each(times, find)

    def _each(self, partitions: Iterable[TopicPartition], ask: Callable[[PartitionFiles, Extent], T]) -> dict[TopicPartition, T]:
        """The answer for each partition, all from one listing."""
        wanted = list(partitions)

        def work(listing: Listing) -> dict[TopicPartition, T]:
            checkpoints: dict[str, DataDirectory] = {}
            return {each: ask(files := self._files(listing, each), self._extent(files, checkpoints)) for each in wanted}

        return self._looking(work)

    def _looking(self, work: Callable[[Listing], T]) -> T:
        """A file that retention takes between listing and looking is a reason to look again."""
        for attempt in range(ATTEMPTS):
            try:
                return work(self.listing())
            except FileNotFoundError as error:
                if self._held is not None:
                    self.hold_still()
                if attempt == ATTEMPTS - 1:
                    raise KafkaStorage(f"{error.filename}: deleted while the log was looked at, {ATTEMPTS} times") from error
            except OSError as error:
                raise KafkaStorage(f"{error.filename}: {error.strerror}") from error
        raise AssertionError("the last attempt returns or raises")

    def _files(self, listing: Listing, partition: TopicPartition) -> PartitionFiles:
        files = listing.partitions.get(partition)
        if files is None:
            raise KafkaStorage(f"{', '.join(self.options.paths)}: {partition} is not there any more")
        return files

    def _extent(self, files: PartitionFiles, checkpoints: dict[str, DataDirectory]) -> Extent:
        owner = checkpoints.get(files.data_directory)
        if owner is None:
            owner = checkpoints[files.data_directory] = self._owner(files.data_directory)
        start = owner.log_starts.get(files.partition, 0)
        if not files.segments:
            return Extent(start, None, start)
        start = max(start, files.segments[0].base_offset)
        active = files.segments[-1]
        end = self._end(files, active)
        if start > end.next_offset and any(segment.size for segment in files.segments):
            # A damaged number must not hide a log.
            logger.warning(
                "%s: its checkpointed start, %d, lies beyond its end, %d, and is ignored", files.partition, start, end.next_offset
            )
            start = files.segments[0].base_offset
        high_watermark = max(end.next_offset, start)
        if self.options.end_of_log == HIGH_WATERMARK:
            high_watermark = max(start, min(high_watermark, owner.high_watermarks.get(files.partition, high_watermark)))
        return Extent(start, end, high_watermark)

    def _owner(self, path: str) -> DataDirectory:
        try:
            return self._owners.get(path, lambda: DataDirectory.peek(path, self.disk))
        except FileNotFoundError:
            return DataDirectory.peek(path, self.disk)

    def _end(self, files: PartitionFiles, active: SegmentFile) -> LogEnd:
        sure = self._sure.get(files.partition)
        if sure is not None and sure.segment == active and sure.segment.mtime_ns == active.mtime_ns:
            return sure
        was_settled = is_settled(active.mtime_ns)
        known = self._ends.get(files.partition)
        end = self._ends[files.partition] = find_log_end(self.disk, active, files.sibling(active, names.INDEX), known)
        if was_settled and end.segment is active:
            self._sure[files.partition] = end
        return end

    def active_end(self, files: PartitionFiles) -> int:
        """How many bytes of the last segment are data."""
        return self._extent(files, {}).active_end

    # Tasks.

    def plan(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        return self._looking(lambda listing: self._plan(listing, ranges))

    def _plan(self, listing: Listing, ranges: Sequence[OffsetRange]) -> list[Split]:
        options = self.options
        pieces = self._pieces(listing, divide(ranges, None, options.max_records_per_partition))
        total = sum(piece.size for piece, _ in pieces)
        share = share_of(total, options.max_bytes_per_partition, options.min_partitions)
        for _ in range(SMALLER_SHARES):
            small = [part for piece, files in pieces for part in cut(self.disk, files, piece, share)]
            tasks = [[piece] for piece in small] if options.max_records_per_partition is not None else pack(small, share)
            if len(tasks) >= (options.min_partitions or 0):
                break
            # Pieces are cut where the index allows it, and what is left of a share may hold the next one.
            share = max(share * 3 // 4, 1)
        if len(tasks) < (options.min_partitions or 0):
            # The index offers no more places to cut at: a small log, or large batches. Several tasks then look through the same bytes.
            divided = divide(ranges, options.min_partitions, options.max_records_per_partition)
            tasks = max(tasks, [[piece] for piece, _ in self._pieces(listing, divided)], key=len)
        settings = ReadSettings(
            tuple(self.disk.resolve(path) for path in options.paths),
            options.read_committed,
            options.follow_symlinks,
            options.fail_on_data_loss,
            options.quarantine_path if options.mode == QUARANTINE else None,
        )
        aborted = self._aborted(pieces) if options.read_committed else {}
        return [FileSplit(tuple(task), tuple(_within(aborted, piece) for piece in task), settings) for task in tasks]

    def _pieces(self, listing: Listing, ranges: Sequence[OffsetRange]) -> list[tuple[Piece, PartitionFiles]]:
        found: list[tuple[Piece, PartitionFiles]] = []
        checkpoints: dict[str, DataDirectory] = {}
        extents: dict[TopicPartition, Extent] = {}
        for each in ranges:
            files = self._files(listing, each.partition)
            extent = extents.get(each.partition)
            if extent is None:
                extent = extents[each.partition] = self._extent(files, checkpoints)
            found += [(piece, files) for piece in pieces_of(self.disk, files, each, extent.active_end)]
        return found

    def _aborted(self, pieces: list[tuple[Piece, PartitionFiles]]) -> dict[TopicPartition, list[tuple[int, int, int]]]:
        found: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        for piece, files in pieces:
            if piece.partition not in found:
                own = [each for each, _ in pieces if each.partition == piece.partition]
                bounds = min(each.start for each in own), max(each.end for each in own)
                transactions = aborted_transactions(self.disk, files, *bounds)
                found[piece.partition] = [(each.producer_id, each.first_offset, each.last_offset) for each in transactions]
        return found

    # Bytes.

    def bytes_between(self, ranges: Sequence[OffsetRange]) -> int:
        return self._looking(lambda listing: sum(piece.size for piece, _ in self._pieces(listing, ranges)))

    def limit_bytes(self, ranges: Sequence[OffsetRange], max_bytes: int) -> dict[TopicPartition, int]:
        return self._looking(lambda listing: self._limit_bytes(self._pieces(listing, ranges), ranges, max_bytes))

    def _limit_bytes(
        self, pieces: list[tuple[Piece, PartitionFiles]], ranges: Sequence[OffsetRange], max_bytes: int
    ) -> dict[TopicPartition, int]:
        ends = {each.partition: each.start for each in ranges}
        sizes = dict.fromkeys(ends, 0)
        for piece, _ in pieces:
            sizes[piece.partition] += piece.size
        total = sum(sizes.values())
        room = {partition: max_bytes * size // max(total, 1) for partition, size in sizes.items()}
        for piece, files in pieces:
            partition = piece.partition
            if piece.size <= room[partition]:
                ends[partition] = piece.end
            elif room[partition] >= 0:
                # The first batch is taken even when it is larger than the share: a stream must move on.
                ends[partition] = end_after(self.disk, files, piece, room[partition])
            room[partition] -= piece.size
            if room[partition] == 0:
                room[partition] = -1
        return ends


def _within(aborted: Mapping[TopicPartition, list[tuple[int, int, int]]], piece: Piece) -> tuple[tuple[int, int, int], ...]:
    return tuple(each for each in aborted.get(piece.partition, ()) if each[2] >= piece.start and each[1] < piece.end)
