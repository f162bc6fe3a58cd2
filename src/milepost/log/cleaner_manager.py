"""Which log is cleaned next, which may not be cleaned now, and how far each one is clean.

The filthiest log that is due goes first. Per partition:

    state        how it gets there                          what it allows
    (none)                                                  to be chosen
    in progress  chosen, for cleaning or for retention      nobody else to choose it
    aborted      `abort_and_pause` while in progress        the cleaning to notice, at its next step, and end
    paused(n)    `abort_and_pause` n times; an aborted      nothing, until `resume` was called as often
                 cleaning ends here
    forgotten    `forget` while in progress                 the cleaning to notice, and end; then nothing is left of it

An aborted cleaning swaps no more segments in: the swap is the owner's step, and it looks at the state first. So whoever truncates
or moves a log may go ahead as soon as `abort_and_pause` returns, though the cleaning's thread may still be reading. Damage found
while cleaning makes a partition *uncleanable* until it is removed or the process starts again; a full disk does not.

The checkpoints live with the data directories. They come in as a mapping, and a function that writes one.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from milepost.clock import Clock
from milepost.config.broker import BrokerConfig
from milepost.config.definition import DOUBLE_MAX
from milepost.errors import InvalidArgument, MilepostError
from milepost.log.cleanable import LogToClean, measure
from milepost.log.cleaner import Cleaner, CleanerStats, CleaningAborted
from milepost.log.offset_map import OffsetMap
from milepost.log.partition_name import TopicPartition
from milepost.log.retention import delete_old_segments

if TYPE_CHECKING:
    from milepost.log.log import Log

logger = logging.getLogger("milepost.log")

MOST_MAP_BYTES = 2**31 - 1
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

WriteCheckpoint = Callable[[TopicPartition, int], None]


@dataclass(frozen=True, slots=True)
class CleaningState:
    name: str
    pauses: int = 0


IN_PROGRESS: Final = CleaningState("in progress")
ABORTED: Final = CleaningState("aborted")
FORGOTTEN: Final = CleaningState("forgotten")


def paused(times: int) -> CleaningState:
    return CleaningState("paused", times)


class CleanerManager:
    def __init__(self, clock: Clock, config: BrokerConfig):
        self.clock = clock
        self.is_enabled = config.log_cleaner_enable
        if config.log_cleaner_io_max_bytes_per_second < DOUBLE_MAX:
            logger.warning("log.cleaner.io.max.bytes.per.second has no effect: a cleaning runs as fast as it can")
        threads = max(1, config.log_cleaner_threads)
        memory = min(config.log_cleaner_dedupe_buffer_size // threads, MOST_MAP_BYTES)
        self.cleaner = Cleaner(
            OffsetMap(memory, config.log_cleaner_io_buffer_load_factor),
            io_buffer_bytes=max(1, config.log_cleaner_io_buffer_size // threads // 2),
            advance=self._advance,
        )
        self.uncleanable: dict[TopicPartition, str] = {}
        self.last_stats: dict[TopicPartition, CleanerStats] = {}
        self._states: dict[TopicPartition, CleaningState] = {}
        self._cleaning: TopicPartition | None = None

    # Choosing.

    def clean_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint
    ) -> Log | None:
        """Clean the filthiest log that is due, then run retention on all compacted ones; the log that was cleaned."""
        work = self.grab_filthiest(logs, checkpoints, write)
        if work is not None:
            self.clean(work, write)
        self.retain(logs)
        return None if work is None else work.log

    def grab_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint
    ) -> LogToClean | None:
        """The log to clean next, now in progress. Wrong checkpoints are corrected on the way."""
        due = []
        for partition, log in logs.items() if self.is_enabled else ():
            if not self._is_free(partition, log):
                continue
            try:
                work = measure(log, checkpoints.get(partition))
            except MilepostError as damage:
                self._mark_uncleanable(partition, damage)
                continue
            if work.checkpoint_was_wrong:
                self._correct(work, checkpoints.get(partition), write)
            if work.clean_bytes + work.cleanable_bytes and work.is_due:
                due.append(work)
        if not due:
            return None
        filthiest = max(due, key=lambda work: work.ratio)
        self._states[filthiest.log.partition] = IN_PROGRESS
        return filthiest

    def _is_free(self, partition: TopicPartition, log: Log) -> bool:
        usable = log.config.compact and not log.is_failed and not log.is_closed
        return usable and partition not in self._states and partition not in self.uncleanable

    def _correct(self, work: LogToClean, checkpoint: int | None, write: WriteCheckpoint) -> None:
        log = work.log
        if not log.config.delete:  # where segments are deleted too, a start above the checkpoint is nothing to worry about
            logger.warning(
                "%s: the cleaner's checkpoint %s lies outside %d to %d; it is set to %d and the log counts as dirty",
                log.directory, checkpoint, log.start_offset, log.end_offset, work.first_dirty_offset,
            )  # fmt: skip
        write(log.partition, work.first_dirty_offset)

    # Cleaning.

    def clean(self, work: LogToClean, write: WriteCheckpoint) -> CleanerStats | None:
        """Clean what `grab_filthiest` gave. None when it did not come to its end, which is logged and leaves the log whole."""
        partition, end_offset, stats = work.log.partition, work.first_dirty_offset, None
        self._cleaning = partition
        try:
            stats = self.cleaner.clean(work)
            end_offset = stats.end_offset
            self.last_stats[partition] = stats
        except CleaningAborted as reason:
            logger.info("%s: cleaning aborted: %s", work.log.directory, reason)
        except OSError as error:
            self._failed(work.log, error)
        except Exception as damage:
            # Also what nobody foresaw: a log that cannot be cleaned must not keep the others from being cleaned.
            self._mark_uncleanable(partition, damage)
        finally:
            self._cleaning = None
            self.done_cleaning(partition, end_offset, write)
        return stats

    def _failed(self, log: Log, error: OSError) -> None:
        if self._states.get(log.partition) != IN_PROGRESS:
            return  # its files went away under the cleaner's hands, knowingly
        if error.errno in DISK_FULL:
            logger.warning("%s: not cleaned: %s; it is tried again later", log.directory, error.strerror)
        else:
            log.fail(error)

    def _mark_uncleanable(self, partition: TopicPartition, damage: Exception) -> None:
        if self._states.get(partition) in (ABORTED, FORGOTTEN):
            return
        self.uncleanable[partition] = str(damage)
        foreseen = isinstance(damage, MilepostError)
        logger.error("%s: not cleaned any more until it is repaired: %s", partition, damage, exc_info=not foreseen)

    def _advance(self, read: int) -> None:
        if self._cleaning is not None and self._states.get(self._cleaning) != IN_PROGRESS:
            raise CleaningAborted(f"{self._cleaning}: somebody needs the log")

    def done_cleaning(self, partition: TopicPartition, end_offset: int, write: WriteCheckpoint) -> None:
        if self._finish(partition):
            write(partition, end_offset)

    def _finish(self, partition: TopicPartition) -> bool:
        """End a cleaning or a retention pass; whether it came to its end."""
        state = self._states.get(partition)
        if state in (IN_PROGRESS, FORGOTTEN):
            del self._states[partition]
            return state == IN_PROGRESS
        if state != ABORTED:
            raise InvalidArgument(f"{partition}: done cleaning, but its state is {'none' if state is None else state.name}")
        self._states[partition] = paused(1)
        return False

    # Retention of compacted logs: a segment must not be deleted while it is rewritten.

    def retain(self, logs: Mapping[TopicPartition, Log]) -> int:
        """One retention pass over the compacted logs that nobody is cleaning; how many segments went."""
        deleted = 0
        for partition in self.grab_deletable(logs):
            try:
                deleted += delete_old_segments(logs[partition])
            except MilepostError as error:
                logger.error("%s: retention failed: %s", partition, error)
            finally:
                self.done_deleting(partition)
        return deleted

    def grab_deletable(self, logs: Mapping[TopicPartition, Log]) -> list[TopicPartition]:
        free = [partition for partition, log in logs.items() if self._is_free(partition, log)]
        self._states.update(dict.fromkeys(free, IN_PROGRESS))
        return free

    def done_deleting(self, partition: TopicPartition) -> None:
        self._finish(partition)

    # Keeping the cleaner away.

    def state(self, partition: TopicPartition) -> CleaningState | None:
        return self._states.get(partition)

    def abort_and_pause(self, partition: TopicPartition) -> None:
        """From here until `resume` no segment of the partition is replaced."""
        state = self._states.get(partition)
        if state is None:
            self._states[partition] = paused(1)
        elif state == IN_PROGRESS:
            self._states[partition] = ABORTED
        elif state in (ABORTED, FORGOTTEN):
            raise InvalidArgument(f"{partition}: its cleaning is being aborted already")
        else:
            self._states[partition] = paused(state.pauses + 1)

    def resume(self, partition: TopicPartition) -> None:
        state = self._states.get(partition)
        if state is None or not state.pauses:
            raise InvalidArgument(
                f"{partition}: cleaning cannot be resumed, its state is {'none' if state is None else state.name}"
            )
        if state.pauses == 1:
            del self._states[partition]
        else:
            self._states[partition] = paused(state.pauses - 1)

    def forget(self, partition: TopicPartition) -> None:
        """The log is gone."""
        self.uncleanable.pop(partition, None)
        self.last_stats.pop(partition, None)
        if self._states.get(partition) in (IN_PROGRESS, ABORTED):
            self._states[partition] = FORGOTTEN
        else:
            self._states.pop(partition, None)

    def truncated(self, log: Log, checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint) -> None:
        """The log was cut: what will be written again behind its end has not been cleaned."""
        base_offset = log.segments.active.base_offset
        if checkpoints.get(log.partition, base_offset) > base_offset:
            write(log.partition, base_offset)
