"""Opening a partition directory: from whatever a clean stop, a crash or another broker left, to a log that can be used.

    1  left-overs     `.deleted` goes; `.cleaned` goes, and with it every `.swap` at or above the lowest `.cleaned` (an unfinished cleaning)
    2  swaps          the remaining `.swap` files are complete: what they replace goes, they get their final names
    3  segments       every `.log` becomes a segment; indexes without a log go; each index is checked against its log
    4  recovery       unless the stop was clean: every segment from the recovery point on is read, checked and its indexes rebuilt
    5  ends           log end, log start, leader epochs trimmed to both
    6  producers      newest snapshot, then the batches behind it, then the window of five batches

Stricter than Kafka (reliability over speed of start): an index that fails its check is rebuilt also below the recovery point; damage with
whole batches behind it is kept as a hole; a log start beyond the log end deletes nothing, the log goes on there; producer state is
replayed even when no snapshot is there.

Read-only callers pass a pool over an `Overlay`: the same steps then happen in memory only.
"""

from __future__ import annotations

import logging
import random
import stat
from dataclasses import dataclass, field

from milepost.clock import Clock
from milepost.config.topic import LogConfig
from milepost.errors import CorruptIndex, CorruptRecord, InvalidRecord, KafkaStorage, SegmentOffsetOverflow
from milepost.files import HandlePool, Overlay, read_file, remove_file
from milepost.log import epochs as epochs_module
from milepost.log.cleaning.splitting import split_overflowed
from milepost.log.directory.unsettled_files import settle_files
from milepost.log.epochs import EpochEntry, LeaderEpochCache
from milepost.log.load_report import LoadReport
from milepost.log.log import Log
from milepost.log.maintenance.scheduler import Scheduler
from milepost.log.owner import Owner
from milepost.log.producer_state.producer_window import restore_windows
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.segments import LogSegments
from milepost.record.batch import RecordBatch
from milepost.segment import names, recovery
from milepost.segment.file_records import Hole
from milepost.segment.segment import Segment
from milepost.segment.txn_index import AbortedTransaction
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.log")


@dataclass(slots=True)
class LogLoader:
    directory: str
    partition: TopicPartition
    config: LogConfig
    pool: HandlePool
    clock: Clock
    rng: random.Random
    is_clean: bool = False
    recovery_point: int = 0
    start_offset: int = 0
    producer_expiration_ms: int = 86_400_000
    scheduler: Scheduler | None = None
    owner: Owner | None = None
    is_start_wrong: bool = False
    report: LoadReport = field(default_factory=LoadReport)
    segments: LogSegments = field(default_factory=LogSegments)
    epochs: LeaderEpochCache = field(init=False)
    producers: ProducerStateManager = field(init=False)

    def load(self) -> Log:
        said = self.recovery_point
        log = self._load_in_doubt()
        if said > log.end_offset:
            # Durably, before the log grows up to it: it would vouch for what is appended below it.
            log.owner.publish_recovery_point(log, log.end_offset)
        # The same for the cleaner: what is appended below its checkpoint would count as clean.
        log.owner.publish_clean_end(log, log.end_offset)
        return log

    def _load_in_doubt(self) -> Log:
        try:
            return self._load()
        except (CorruptRecord, InvalidRecord) as damage:
            # Below the recovery point nobody checks batches, but what is learnt from their headers may stumble over a damaged one.
            if not self.is_clean and not self.recovery_point:
                raise
            note = f"{damage}; the whole log is recovered for that"
        logger.warning("%s", note)
        self.report.notes.append(note)
        for segment in self.segments:
            segment.close_handles()
        self.segments.clear()
        self.is_clean, self.recovery_point = False, 0
        return self._load()

    def _load(self) -> Log:
        listing = self.pool.disk.listdir(self.directory)
        if any(name.endswith(names.UNSETTLED) for name in listing):
            settle_files(self.pool.disk, self.directory, listing, self._end_of_swap)
            listing = self.pool.disk.listdir(self.directory)
        self._load_segments(listing)
        self.epochs, relearn = LeaderEpochCache.load(f"{self.directory}/{epochs_module.FILE_NAME}", self.pool.disk)
        self.producers = ProducerStateManager(
            self.directory, self.pool.disk, self.clock, expiration_ms=self.producer_expiration_ms
        )
        self._check_indexes()
        if not self.is_clean:
            self._recover(self.segments.from_offset(self.recovery_point) if len(self.segments) else [])
        end_offset = self._settle_ends()
        self.epochs.truncate_from_start(self.start_offset)
        self.epochs.truncate_from_end(end_offset)
        if relearn or self.epochs.is_empty:
            self._learn_epochs()
        self.epochs.truncate_from_start(self.start_offset)
        log = Log(
            self.directory,
            self.partition,
            self.config,
            self.pool,
            self.clock,
            self.rng,
            self.segments,
            self.producers,
            self.epochs,
            start_offset=self.start_offset,
            end_offset=end_offset,
            recovery_point=end_offset if self.is_clean and not self.report.rebuilt else min(self.recovery_point, end_offset),
            scheduler=self.scheduler,
            owner=self.owner,
        )
        if self.is_start_wrong:
            # Durably, before the log grows past the wrong start: it would hide what is appended below it.
            log.owner.publish_start(log, log.start_offset)()
            # And before there is a segment at the wrong one, which would bear it out.
            self.segments.active.seal()
            self.segments.add(Segment.create(self.pool, self.directory, end_offset, self.config, self.clock, self.rng))
        log.recovered, log.bytes_cut = tuple(self.report.recovered), self.report.bytes_cut
        self._load_producers(log)
        self.segments.active.activate()
        return log

    # 3: segments and their indexes.

    def _load_segments(self, listing: list[str]) -> None:
        present = set(listing)
        holes = [hole for hole in map(names.parse_hole_name, listing) if hole is not None]
        for name in sorted(listing):
            for suffix in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX) if name.endswith("index") else ():
                if names.is_segment_file(name, suffix) and name[: -len(suffix)] + names.LOG not in present:
                    logger.warning("%s/%s: an index without its log; removed", self.directory, name)
                    self._remove(name)
            if names.is_segment_file(name, names.LOG):
                self._ensure_regular(name)
                segment = self._open_segment(int(name[: -len(names.LOG)]))
                own = (Hole(*hole[1:]) for hole in holes if hole[0] == segment.base_offset)
                segment.log.holes = sorted(
                    (hole for hole in own if self._is_there(segment, hole)), key=lambda hole: hole.position
                )
                self.segments.add(segment)
        if len(self.segments):
            self.start_offset = max(self.start_offset, self.segments.first.base_offset)
            if self.start_offset <= self.segments.active.base_offset:
                # Surely inside the log. Whether a start further on is inside, or wrong, is known when the log's end is.
                self._drop_below_start()

    def _is_there(self, segment: Segment, hole: Hole) -> bool:
        """A hole is over when its bytes are others than those copied aside: the log was cut below it and has grown again."""
        size = hole.end - hole.position
        if size <= 0 or hole.end > segment.size:
            return False
        name = names.hole_name(segment.base_offset, hole.position, hole.end, hole.first_offset, hole.next_offset)
        path = f"{self.directory}/{name}"
        if self.pool.disk.stat(path).st_size != size:
            return False
        return read_file(self.pool.disk, path, size) == segment.log.read(hole.position, size)

    def _ensure_regular(self, name: str) -> None:
        path = f"{self.directory}/{name}"
        mode = self.pool.disk.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise KafkaStorage(f"{path}: not a regular file (mode {stat.filemode(mode)}); move it out of the partition directory")

    def _end_of_swap(self, base_offset: int) -> int:
        segment = Segment(self.pool, self.directory, base_offset, self.config, self.clock, self.rng, suffix=names.SWAP)
        end = segment.next_offset()
        segment.close_handles()
        return end

    def _remove(self, name: str) -> None:
        remove_file(self.pool.disk, f"{self.directory}/{name}")

    def _open_segment(self, base_offset: int) -> Segment:
        return Segment(self.pool, self.directory, base_offset, self.config, self.clock, self.rng)

    def _drop_below_start(self) -> None:
        """A segment that retention removed may be back after a crash: it is below the published start, and goes again."""
        for segment in list(self.segments):
            following = self.segments.next_base(segment)
            if following is not None and following <= self.start_offset:
                self.segments.remove(segment.base_offset)
                segment.delete()

    def _check_indexes(self) -> None:
        """Check what recovery will not rebuild anyway."""
        trusted = [segment for segment in self.segments if self.is_clean or self._is_below_recovery_point(segment)]
        for segment in trusted:
            try:
                segment.check_indexes()
            except CorruptIndex as damage:
                self.report.tell_rebuilt(segment.base_offset, damage, self._is_in_memory)
                self._recover([segment])

    def _is_below_recovery_point(self, segment: Segment) -> bool:
        following = self.segments.next_base(segment)
        return following is not None and following <= self.recovery_point

    @property
    def _is_in_memory(self) -> bool:
        return isinstance(self.pool.disk, Overlay)

    # 4: recovery.

    def _recover(self, doubtful: list[Segment]) -> None:
        if doubtful:
            self._producers_at(doubtful[0].base_offset)
        for segment in doubtful:
            if segment.base_offset not in self.segments:
                continue
            try:
                self._recover_segment(segment)
            except SegmentOffsetOverflow:
                for piece in split_overflowed(segment, self.segments):
                    self._recover_segment(piece)

    def _recover_segment(self, segment: Segment) -> None:
        segment.txn_index.reset()

        def on_batch(batch: object) -> None:
            if not isinstance(batch, RecordBatch):
                return
            latest = self.epochs.latest_epoch
            if batch.partition_leader_epoch >= 0 and (latest is None or batch.partition_leader_epoch > latest):
                self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                self._replay(batch, segment)

        found = recovery.recover(segment, on_batch, lambda: self._following(segment), self.segments.next_base(segment))
        self.producers.update_map_end_offset(found.next_offset)
        if segment is not self.segments.active:
            self.producers.take_snapshot()  # that of the end comes when the end is known
        self.report.recovered.append(segment.base_offset)
        self.report.tell(segment, found, self._is_in_memory)
        if found.bytes_cut and self._following(segment) is None:
            self._drop_after(segment)

    def _replay(self, batch: RecordBatch, segment: Segment | None) -> None:
        ended = self.producers.replay(batch)
        if ended is None:
            return
        if ended.is_aborted and segment is not None:
            stable = self.producers.last_stable_offset(ended)
            segment.txn_index.append(AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable))
        self.producers.complete_transaction(ended)

    def _following(self, segment: Segment) -> int | None:
        """The base of the next segment that holds a valid batch: damage before it is not a torn tail."""
        later = self.segments.higher(segment.base_offset)
        while later is not None:
            if recovery.has_valid_batch(later):
                return later.base_offset
            later = self.segments.higher(later.base_offset)
        return None

    def _drop_after(self, segment: Segment) -> None:
        """Segments behind a torn tail hold no valid batch: what bytes they have is kept aside by recovering them first."""
        later = self.segments.higher(segment.base_offset)
        while later is not None:
            self.report.tell(later, recovery.recover(later), self._is_in_memory)
            self.segments.remove(later.base_offset)
            later.delete()
            self.producers.remove_snapshot(later.base_offset)
            later = self.segments.higher(segment.base_offset)

    def _producers_at(self, offset: int) -> None:
        """Producer state as it was when `offset` was next, with snapshots there and at the last two segments as far as they lie before."""
        self.producers.truncate_and_reload(self.start_offset, offset)
        for place in sorted({base for base in self.segments.base_offsets()[-2:] if base < offset} | {offset}):
            if self.producers.map_end_offset < place:
                self._replay_up_to(place)
                self.producers.take_snapshot()

    def _replay_up_to(self, offset: int) -> None:
        start = self.producers.map_end_offset
        for segment in self.segments.between(start, offset) if start < offset else []:
            for _, batch in segment.log.batches():
                if isinstance(batch, RecordBatch) and batch.producer_id >= 0 and start <= batch.base_offset < offset:
                    self._replay(batch, None)
        self.producers.update_map_end_offset(offset)

    # 5: where the log starts and ends.

    def _settle_ends(self) -> int:
        holds_data = any(segment.size for segment in self.segments)
        if len(self.segments):
            end_offset = self.segments.active.next_offset()
            if end_offset < self.start_offset and holds_data:
                return self._go_on_at_start(end_offset)
            if end_offset < self.start_offset:
                for segment in list(self.segments):
                    self.segments.remove(segment.base_offset)
                    segment.delete()
        if not len(self.segments):
            sync = self.scheduler is None or not self.scheduler.is_background
            new = Segment.create(self.pool, self.directory, self.start_offset, self.config, self.clock, self.rng, sync=sync)
            self.segments.add(new)
            end_offset = self.start_offset
        self.start_offset = max(self.start_offset, self.segments.first.base_offset)
        self._drop_below_start()
        return end_offset

    def _go_on_at_start(self, end_offset: int) -> int:
        """The log once reached its start, and lost what lies before it: what is left stays, and no offset is given out a second time."""
        lost_end = self.start_offset
        note = f"{self.directory}: log start {lost_end} lies beyond the log end {end_offset}; nothing is deleted, the log goes on there"
        self.report.notes.append(note)
        logger.error("%s", note)
        self.start_offset = self.segments.first.base_offset
        self.is_start_wrong, self.is_clean = True, False
        self.recovery_point = min(self.recovery_point, end_offset)
        self._recover(list(self.segments))  # producers of records that were thought to be gone
        return lost_end

    def _learn_epochs(self) -> None:
        """Read the epochs from the batches, unless no segment begins with one: old formats have none."""
        firsts = (next(segment.log.headers(), None) for segment in self.segments)
        if not any(first is not None and first.partition_leader_epoch >= 0 for first in firsts):
            return
        learnt: list[EpochEntry] = []
        for segment in self.segments:
            for batch in segment.log.headers():
                if batch.partition_leader_epoch > (learnt[-1].epoch if learnt else -1):
                    learnt.append(EpochEntry(batch.partition_leader_epoch, batch.base_offset))
        self.epochs.replace(learnt)

    # 6: producers.

    def _load_producers(self, log: Log) -> None:
        self.producers.remove_stray_snapshots(self.segments.base_offsets())
        self.producers.truncate_and_reload(self.start_offset, log.end_offset)
        recent = self.segments.base_offsets()[-2:]
        for base in recent:
            if self.producers.map_end_offset < base:
                log.replay_producers(self.producers.map_end_offset, base)
                self.producers.update_map_end_offset(base)
                self.producers.take_snapshot()
        log.replay_producers(self.producers.map_end_offset, log.end_offset)
        self.producers.update_map_end_offset(log.end_offset)
        if log.scheduler.is_background:
            log.snapshot_in_background()
        else:
            self.producers.take_snapshot()
        restore_windows(self.producers, self.segments, log.start_offset)
