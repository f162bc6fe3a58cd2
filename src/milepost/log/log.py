"""The log of one partition: append at the end, roll to a new segment, flush, cut, and drop from the front.

Four offsets describe it:

    start_offset     the first that may be read; deletion moves it up
    high_watermark   the first that consumers may not read yet
    end_offset       the next to be assigned
    recovery_point   the first not known to be on the medium: where recovery starts after a crash

Order of writing (`tests/crash/test_write_order.py` names the rules W-1 to W-9; tests replay every crash that they allow): bytes
are in the kernel before an append is answered (W-1); a new segment's name is durable before the next segment is made, and before
the recovery point passes into it (W-5); a checkpoint speaks only of what was synced before (W-3); the new start is published
before old segments are renamed (W-6); after a cut the file is synced before the epoch file is (W-7).

One thread owns a log. An error of the disk fails the operation; when the log can no longer vouch for its end it marks
itself as failed and tells its owner, who takes the whole directory offline.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence
from types import TracebackType

from milepost.clock import Clock
from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument, KafkaStorage, OffsetOutOfRange, PolicyViolation
from milepost.files import HandlePool, remove_files
from milepost.log.cleaning.swap import Swap
from milepost.log.ending import EndingLog
from milepost.log.epochs import LeaderEpochCache
from milepost.log.maintenance.scheduler import Scheduler, WorkQueue
from milepost.log.owner import Owner
from milepost.log.producer_state.producer_window import restore_windows
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.segments import LogSegments
from milepost.log.validation import Validator
from milepost.record.batch import RecordBatch
from milepost.segment import names
from milepost.segment.profile import IndexProfile
from milepost.segment.segment import Segment
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.log")


class Log(EndingLog):
    def __init__(
        self,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        pool: HandlePool,
        clock: Clock,
        rng: random.Random,
        segments: LogSegments,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        *,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        scheduler: Scheduler | None = None,
        owner: Owner | None = None,
    ):
        super().__init__()
        self.directory = directory
        self.partition = partition
        self.config = config
        self.pool = pool
        self.clock = clock
        self.rng = rng
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.recovery_point = recovery_point
        self.high_watermark = start_offset
        self.last_flush_ms = clock.now_ms()
        self.scheduler = scheduler or Scheduler(clock)
        self.owner = owner or Owner()
        self.is_failed = False
        self.is_closed = False
        self.is_read_only = False
        # The segments that loading had to read through, by base offset: their indexes were rebuilt by this configuration.
        self.recovered: Sequence[int] = ()
        self.bytes_cut = 0
        self.validator = Validator(config, IndexProfile(config.index_profile) is IndexProfile.PER_APPEND)
        self._is_name_unsynced = False
        if self.scheduler.is_background:
            epochs.write_in_background = self.write_epochs_in_background

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def assign_epoch(self, epoch: int) -> None:
        """The leader of `epoch` begins at the log end."""
        self.ensure_writable()
        try:
            self.epochs.assign(epoch, self.end_offset)
        except OSError as error:
            raise self.refuse(error) from error

    def update_config(self, config: LogConfig) -> None:
        """New settings of the topic: for the next append, the next roll, the next retention pass."""
        if config.compact != self.config.compact:
            # Whoever deletes segments from here on does not ask whether a cleaning is about to bring them back.
            with self.owner.without_cleaning(self):
                self._use_config(config)
        else:
            self._use_config(config)

    def _use_config(self, config: LogConfig) -> None:
        self.config = config
        self.validator = Validator(config, IndexProfile(config.index_profile) is IndexProfile.PER_APPEND)
        for segment in self.segments:
            segment.update_config(config)

    # Rolling.

    def roll(self, requested_offset: int = 0) -> Segment:
        """End the active segment and start the next one at the log end, or at `requested_offset` if that is further."""
        self.ensure_writable()
        base_offset = max(requested_offset, self.end_offset)
        active = self.segments.active
        if base_offset < active.base_offset:
            raise KafkaStorage(
                f"{self.directory}: cannot start a segment at {base_offset}, below the active one at {active.base_offset}"
            )
        if self._is_name_unsynced:
            # Of two names that are not durable, a power failure could keep the second and lose the first: a gap in the log.
            self.scheduler.wait(lambda: not self._is_name_unsynced)
        try:
            if base_offset == active.base_offset:
                if active.size:
                    raise KafkaStorage(f"{self.directory}: a segment at {base_offset} is there already and is not empty")
                self._remove_segments([active])
            else:
                active.seal()
                if base_offset <= self.recovery_point:
                    active.flush()  # its records are durable, so that no later flush comes by; the trimmed indexes are not
            segment = Segment.create(self.pool, self.directory, base_offset, self.config, self.clock, self.rng, sync=False)
        except OSError as error:
            # As long as there is a last segment, a full disk costs no more than the roll: the next append tries again.
            raise (self.refuse if active.base_offset in self.segments else self.fail)(error) from error
        self.segments.add(segment)
        self.producers.update_map_end_offset(base_offset)
        self._is_name_unsynced = True
        self.snapshot_in_background(lambda: self.pool.disk.sync_directory(self.directory), self._name_synced)
        self.flush_in_background(base_offset)
        return segment

    def _name_synced(self) -> None:
        self._is_name_unsynced = False

    # Watermarks.

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark to `offset`, within the log."""
        if offset < 0:
            raise InvalidArgument(f"{self.directory}: high watermark {offset} is negative")
        start, end = self.start_offset, self.end_offset
        self.high_watermark = high_watermark = start if offset < start else end if offset > end else offset
        self.producers.on_high_watermark_updated(high_watermark)
        return high_watermark

    def increment_start(self, offset: int) -> bool:
        """Forget everything below `offset`. Whether that changed anything."""
        self.ensure_writable()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{self.directory}: cannot start at {offset}, above the high watermark {self.high_watermark}")
        if offset <= self.start_offset:
            return False
        try:
            self.epochs.truncate_from_start(offset)
        except OSError as error:
            raise self.refuse(error) from error
        self.start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        self.producers.on_log_start_incremented(offset)
        return True

    def delete_records(self, offset: int = -1) -> int:
        """Make the records below `offset` unreadable (-1: all up to the high watermark); the new start."""
        if not self.config.delete:
            raise PolicyViolation(
                f"{self.directory}: cleanup.policy is {','.join(self.config.cleanup_policy)}; deleting records needs 'delete' in it"
            )
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise OffsetOutOfRange(f"{self.directory}: offset {target} is outside 0 to {self.high_watermark}, the high watermark")
        self.increment_start(target)
        return self.start_offset

    # Dropping segments.

    def delete_segments(self, doomed: Sequence[Segment]) -> int:
        """Remove whole segments from the front: first publish the new start, then rename, then (later) unlink."""
        if not doomed:
            return 0
        self.ensure_writable()
        if len(doomed) == len(self.segments):
            self.roll()
        survivor = self.segments.higher(doomed[-1].base_offset)
        assert survivor is not None, "the active segment survives"
        if survivor.base_offset > self.start_offset:
            self.increment_start(survivor.base_offset)
        for segment in doomed:
            self.segments.remove(segment.base_offset)

        def refused(error: OSError) -> None:
            for segment in doomed:
                self.segments.add(segment)
            raise self.refuse(error) from error

        self.in_background(
            self.owner.publish_start(self, self.start_offset), lambda _: self._published(doomed, survivor.base_offset), refused
        )
        return len(doomed)

    def _published(self, doomed: Sequence[Segment], first_offset: int) -> None:
        try:
            for segment in doomed:
                self._retire(segment)
            # Those that a stop or a recovery left inside the segments: no segment would ever take them along.
            self.producers.delete_snapshots_before(first_offset)
        except OSError as error:
            raise self.fail(error) from error
        self.sync_in_background([])

    def _remove_segments(self, doomed: Iterable[Segment], step_by_step: bool = False) -> None:
        """`step_by_step`: each step is durable before the next; a crash leaves all segments up to some one, with all their files."""
        for segment in doomed:
            self.segments.remove(segment.base_offset)
            self._retire(segment, step_by_step)
        self.pool.disk.sync_directory(self.directory)

    def _retire(self, segment: Segment, step_by_step: bool = False) -> None:
        """Rename the files of a segment that is in the log no more. Whoever still reads them has until the delay is over."""
        segment.change_suffix(names.DELETED, step_by_step)
        self.unlink_later(segment, self.producers.rename_snapshot_for_delete(segment.base_offset))

    def unlink_later(self, segment: Segment, snapshot: str | None) -> None:
        def unlink() -> None:
            segment.close_handles()
            if self.is_closed:
                return  # the next start, or whoever deletes the whole directory, removes the same files
            paths = [segment.path(kind) for kind in names.SEGMENT_SUFFIXES]
            disk = self.pool.disk
            gone = [*paths, snapshot] if snapshot else paths
            self.in_background(lambda: remove_files(disk, gone), lambda _: None, self._failed, WorkQueue.BULK)

        self.scheduler.later(self.config.file_delete_delay_ms, unlink)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put cleaned segments, complete and named `.cleaned`, in the place of others. What they replace is unlinked later."""
        swap = self.swap(new, old)
        try:
            swap.finish()
        except OSError as error:
            raise self.fail(error) from error

    def swap(self, new: Sequence[Segment], old: Sequence[Segment]) -> Swap:
        """The same, to be done step by step."""
        self.ensure_writable()
        kept = {segment.base_offset for segment in new}

        def retire(segment: Segment) -> None:
            snapshot = None if segment.base_offset in kept else self.producers.rename_snapshot_for_delete(segment.base_offset)
            self.unlink_later(segment, snapshot)

        return Swap(self.segments, new, old, retire)

    # Truncating.

    def truncate_to(self, offset: int) -> bool:
        """Remove `offset` and everything behind it. False when there was nothing to remove."""
        if offset < 0:
            raise InvalidArgument(f"{self.directory}: cannot truncate to offset {offset}")
        self.ensure_writable()
        if offset >= self.end_offset:
            try:
                self.epochs.truncate_from_end(self.end_offset)
            except OSError as error:
                raise self.refuse(error) from error
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self.owner.without_cleaning(self):
            self._truncate_to(offset)
        return True

    def _truncate_to(self, offset: int) -> None:
        self.scheduler.wait()
        kept = self.segments.floor(offset)
        assert kept is not None, "the offset is not below the first segment"
        self._publish_lower(offset, offset, kept.base_offset)
        try:
            doomed = [segment for segment in self.segments if segment.base_offset > offset]
            self._remove_segments(reversed(doomed), step_by_step=True)
            active = self.segments.active
            active.truncate_to(offset)
            active.flush()
            self._ended_at(offset)
            self.start_offset = min(self.start_offset, offset)
            self.producers.truncate_and_reload(self.start_offset, offset)
            self.replay_producers(self.producers.map_end_offset, offset)
            self.producers.update_map_end_offset(offset)
            self.producers.take_snapshot()
            restore_windows(self.producers, self.segments, self.start_offset)
        except OSError as error:
            raise self.fail(error) from error

    def truncate_fully_and_start_at(self, offset: int, start_offset: int | None = None) -> None:
        """Remove everything; the log goes on, empty, at `offset`."""
        self.ensure_writable()
        with self.owner.without_cleaning(self):
            self._truncate_fully_and_start_at(offset, offset if start_offset is None else start_offset)

    def _truncate_fully_and_start_at(self, offset: int, start_offset: int) -> None:
        self.scheduler.wait()
        self._publish_lower(offset, start_offset, offset)
        try:
            self._remove_segments(reversed(list(self.segments)), step_by_step=True)
            self.segments.add(Segment.create(self.pool, self.directory, offset, self.config, self.clock, self.rng))
            self.start_offset = start_offset
            self.epochs.clear()
            self._ended_at(offset)
            self.producers.truncate_fully_and_start_at(offset)
            self.update_high_watermark(offset)
        except OSError as error:
            raise self.fail(error) from error

    def _publish_lower(self, end_offset: int, start_offset: int, clean_end: int) -> None:
        """Checkpoints that lie beyond the new ends would vouch for, or hide, what is written there later."""
        try:
            if end_offset < self.recovery_point:
                self.owner.publish_recovery_point(self, min(end_offset, self.recovers_from))
            if start_offset < self.start_offset:
                self.owner.publish_start(self, start_offset)()
            self.owner.publish_clean_end(self, clean_end)
        except OSError as error:
            raise self.refuse(error) from error

    def _ended_at(self, offset: int) -> None:
        self.end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.flush_no_further_than(offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_from_end(offset)

    def replay_producers(self, start: int, end: int) -> None:
        """Bring the producer state from offset `start` up to `end` by reading the batches between."""
        for segment in self.segments.between(start, end) if start < end else ():
            for _, batch in segment.log.batches(segment.position_of(max(start, segment.base_offset))):
                if batch.last_offset >= end:
                    return
                if isinstance(batch, RecordBatch) and batch.producer_id >= 0 and batch.last_offset >= start:
                    ended = self.producers.replay(batch)
                    if ended is not None:
                        self.producers.complete_transaction(ended)

    # The end.

    def end_close(self, failure: OSError | None) -> None:
        try:
            if failure is not None:
                raise self.fail(failure) from failure
            if not self.is_failed:
                self._unwritten_epochs = None
                self.recovery_point = self.end_offset
        finally:
            self.finish_files()
            self.owner.closed(self)

    def fail(self, error: OSError) -> KafkaStorage:
        self.is_failed = True
        logger.error("%s: offline after %s", self.directory, error)
        self.owner.failed(self, error)
        return KafkaStorage(f"{self.directory}: {error.strerror or error}; the directory is offline")
