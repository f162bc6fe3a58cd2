"""Which log is cleaned next, which may not be cleaned now, and how far each one is clean.

The filthiest log that is due goes first. Per partition:

    state        how it gets there                          what it allows
    (none)                                                  to be chosen
    in progress  chosen, for cleaning or for retention      nobody else to choose it
    aborted      `abort_and_pause` while in progress        the cleaning to notice, at its next step, and end
    paused(n)    `abort_and_pause` n times; an aborted      nothing, until `resume` was called as often
                 cleaning ends here
    forgotten    `forget` while in progress                 the cleaning to notice, and end; then nothing is left of it

An aborted cleaning swaps no more segments in: the swap is the owner's, and it looks at the state first; one that has begun is
finished by whoever aborts. So whoever truncates or moves a log may go ahead as soon as `abort_and_pause` returns, though the
cleaning's thread may still be reading. The state is the owner's thread's; the cleaning's only looks at it. Damage found
while cleaning makes a partition *uncleanable* until it is removed or the process starts again; a full disk does not.

The checkpoints live with the data directories. They come in as a mapping, and a function that writes one.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from milepost.clock import Clock
from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidArgument, MilepostError
from milepost.frozen import frozen
from milepost.log.cleanable import LogToClean, measure
from milepost.log.cleaner import Cleaner, CleanerStats, CleaningAborted
from milepost.log.offset_map import OffsetMap
from milepost.log.partition_name import TopicPartition
from milepost.log.retention import delete_old_segments
from milepost.log.throttle import Throttle

if TYPE_CHECKING:
    from milepost.log.log import Log

logger = logging.getLogger("milepost.log")

MOST_MAP_BYTES = 2**31 - 1
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOGS_IN_A_PIECE = 32
LONGEST_SLEEP = 0.1

WriteCheckpoint = Callable[[TopicPartition, int], None]


@frozen
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
        self.backoff_ms = config.log_cleaner_backoff_ms
        self._throttle = Throttle(config.log_cleaner_io_max_bytes_per_second)
        self.cleaner = Cleaner(*memory_of(config), advance=self._advance)
        self._next_memory: tuple[OffsetMap, int] | None = None
        self.uncleanable: dict[TopicPartition, str] = {}
        self.last_stats: dict[TopicPartition, CleanerStats] = {}
        self._states: dict[TopicPartition, CleaningState] = {}
        self._cleaning: Log | None = None

    def use_config(self, config: BrokerConfig) -> None:
        """Other settings, perhaps while it is at work: the speed and the pauses at once, the memory from the next log on."""
        self.backoff_ms = config.log_cleaner_backoff_ms
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self._next_memory = memory_of(config)

    # Choosing.

    def clean_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint
    ) -> Log | None:
        """Clean the filthiest log that is due, then run retention on all compacted ones; the log that was cleaned."""
        work = self.grab_filthiest(logs, checkpoints, write)
        if work is not None:
            self.clean(work, write)
        for _ in self.retain(logs):
            pass
        return None if work is None else work.log

    def grab_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint
    ) -> LogToClean | None:
        """The log to clean next, now in progress. Wrong checkpoints are corrected on the way."""
        looking = self.look_for_filthiest(logs, checkpoints, write)
        while True:
            try:
                next(looking)
            except StopIteration as end:
                found: LogToClean | None = end.value
                return found

    def look_for_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint
    ) -> Generator[None, None, LogToClean | None]:
        """The same in pieces, for who has other things to do in between."""
        due = []
        for number, (partition, log) in enumerate(list(logs.items()) if self.is_enabled else ()):
            if number % LOGS_IN_A_PIECE == 0:
                yield
            if not self._is_free(partition, log):
                continue
            yield
            try:
                work = measure(log, checkpoints.get(partition))
            except MilepostError as damage:
                self._mark_uncleanable(partition, damage)
                continue
            if work.checkpoint_was_wrong:
                self._correct(work, checkpoints.get(partition), write)
            if work.clean_bytes + work.cleanable_bytes and work.is_due:
                due.append(work)
        due = [work for work in due if self._is_free(work.log.partition, work.log)]  # still: it took its time
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
        return self.cleaned(work, self.attempt(work), write)

    def attempt(self, work: LogToClean) -> CleanerStats | Exception:
        """The long part, which may run on another thread; what became of it is for `cleaned`, on the owner's."""
        self._cleaning = work.log
        if self._next_memory is not None:
            (self.cleaner.offset_map, self.cleaner.io_buffer_bytes), self._next_memory = self._next_memory, None
        try:
            return self.cleaner.clean(work)
        except Exception as failure:
            return failure
        finally:
            self._cleaning = None

    def cleaned(self, work: LogToClean, outcome: CleanerStats | Exception, write: WriteCheckpoint) -> CleanerStats | None:
        partition, end_offset = work.log.partition, work.first_dirty_offset
        if isinstance(outcome, CleanerStats):
            end_offset = outcome.end_offset
            self.last_stats[partition] = outcome
        elif isinstance(outcome, CleaningAborted):
            logger.info("%s: cleaning aborted: %s", work.log.directory, outcome)
        elif isinstance(outcome, OSError):
            self._failed(work.log, outcome)
        else:
            # Also what nobody foresaw: a log that cannot be cleaned must not keep the others from being cleaned.
            self._mark_uncleanable(partition, outcome)
        self.done_cleaning(partition, end_offset, write)
        return outcome if isinstance(outcome, CleanerStats) else None

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
        logger.error(
            "%s: not cleaned any more until it is repaired: %s", partition, damage, exc_info=None if foreseen else damage
        )

    def _advance(self, count: int) -> None:
        self._ensure_in_progress()
        pause = self._throttle.pause_after(count)
        while pause > 0:
            # In short pieces: whoever needs the log does not wait for a slow cleaning.
            self._throttle.sleep(min(pause, LONGEST_SLEEP))
            pause -= LONGEST_SLEEP
            self._ensure_in_progress()

    def _ensure_in_progress(self) -> None:
        if self._cleaning is not None and self._states.get(self._cleaning.partition) != IN_PROGRESS:
            raise CleaningAborted(f"{self._cleaning.partition}: somebody needs the log")

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

    def retain(self, logs: Mapping[TopicPartition, Log]) -> Iterator[None]:
        """One retention pass, in pieces, over the compacted logs that nobody is cleaning."""
        for number, (partition, log) in enumerate(list(logs.items())):
            if number % LOGS_IN_A_PIECE == 0:
                yield
            if self._is_free(partition, log):
                self._states[partition] = IN_PROGRESS
                try:
                    delete_old_segments(log)
                except MilepostError as error:
                    logger.error("%s: retention failed: %s", partition, error)
                finally:
                    self._finish(partition)
                yield

    # Keeping the cleaner away.

    def state(self, partition: TopicPartition) -> CleaningState | None:
        return self._states.get(partition)

    def abort_all(self) -> None:
        """The process is about to stop."""
        for partition, state in self._states.items():
            if state == IN_PROGRESS:
                self.abort_and_pause(partition)

    def abort_and_pause(self, partition: TopicPartition) -> None:
        """From here until `resume` no segment of the partition is replaced."""
        self._finish_swap(partition)
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
        """The log is gone, or about to go."""
        self._finish_swap(partition)
        self.uncleanable.pop(partition, None)
        self.last_stats.pop(partition, None)
        if self._states.get(partition) in (IN_PROGRESS, ABORTED):
            self._states[partition] = FORGOTTEN
        else:
            self._states.pop(partition, None)

    def _finish_swap(self, partition: TopicPartition) -> None:
        if self._cleaning is not None and self._cleaning.partition == partition:
            self.cleaner.finish_swap(self._cleaning)

    def truncated(self, log: Log, checkpoints: Mapping[TopicPartition, int], write: WriteCheckpoint) -> None:
        """The log was cut: what will be written again behind its end has not been cleaned."""
        base_offset = log.segments.active.base_offset
        if checkpoints.get(log.partition, base_offset) > base_offset:
            write(log.partition, base_offset)


def memory_of(config: BrokerConfig) -> tuple[OffsetMap, int]:
    """The map, which takes its memory only as it fills, and the size of the buffers."""
    # One thread cleans, whatever `log.cleaner.threads` says; it has a thread's share of the memory.
    threads = max(1, config.log_cleaner_threads)
    map_bytes = min(config.log_cleaner_dedupe_buffer_size // threads, MOST_MAP_BYTES)
    buffer_bytes = max(1, config.log_cleaner_io_buffer_size // threads // 2)
    return OffsetMap(map_bytes, config.log_cleaner_io_buffer_load_factor), buffer_bytes
