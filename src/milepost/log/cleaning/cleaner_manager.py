"""Which log is cleaned next, which may not be cleaned now, and how far each one is clean.

The filthiest log that is due goes first. Per partition:

    under way    chosen to be cleaned                      neither chosen again nor touched by retention
    paused       `pause` as often as not yet `resume`      the same; what was under way has ended

A cleaning runs on another thread and holds on to the `LogToClean` it was chosen with. It goes on as long as that is what is under way
for its partition: it asks before each step, and the owner asks before it swaps segments in. So whoever cuts, deletes or moves a log,
or changes its cleanup.policy, may go ahead as soon as `pause` or `forget` returns, though the thread may still be reading: a swap that
had begun is finished by then, and none begins any more. What is under way is the owner's thread's; the cleaning's only looks at it.

Damage found while cleaning makes a partition *uncleanable* until it is removed or the process starts again; a full disk does not.

The checkpoints live with the data directories. They come in as a function that reads one, and a function that writes one.
"""

from __future__ import annotations

import errno
import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.config.broker import BrokerConfig
from milepost.errors import MilepostError
from milepost.log.cleaning.cleanable import LogToClean, measure
from milepost.log.cleaning.cleaner import Cleaner, CleanerStats, CleaningAborted
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.retention import retain
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.log.log import Log

logger = logging.getLogger("milepost.log")

MOST_MAP_BYTES = 2**31 - 1
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOGS_IN_A_PIECE = 32
LONGEST_SLEEP = 0.1

ReadCheckpoint = Callable[[TopicPartition], "int | None"]
WriteCheckpoint = Callable[[TopicPartition, int], None]


class Throttle:
    """How long to wait after so many bytes, so that no more than a number of them pass in a second (`log.cleaner.io.max.bytes.per.second`).

    Bytes count when they are read and when they are written, as in Kafka. Time that was not used is not saved up.
    """

    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.bytes_per_second = bytes_per_second
        self.sleep = sleep
        self._monotonic = monotonic
        self._paid_until = monotonic()

    def pause_after(self, count: int) -> float:
        """The seconds to wait before the next bytes."""
        now = self._monotonic()
        self._paid_until = max(self._paid_until, now) + count / self.bytes_per_second
        return self._paid_until - now


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
        # What was chosen, and may go on.
        self._under_way: dict[TopicPartition, LogToClean] = {}
        self._pauses: Counter[TopicPartition] = Counter()
        # What the cleaning's thread has in hand, whether or not it may go on.
        self._cleaning: LogToClean | None = None

    def use_config(self, config: BrokerConfig) -> None:
        """Other settings, perhaps while it is at work: the speed and the pauses at once, the memory from the next log on."""
        self.backoff_ms = config.log_cleaner_backoff_ms
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self._next_memory = memory_of(config)

    # Choosing.

    def clean_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoint_of: ReadCheckpoint, write: WriteCheckpoint
    ) -> Log | None:
        """Clean the filthiest log that is due, then run retention on all compacted ones; the log that was cleaned."""
        work = self.grab_filthiest(logs, checkpoint_of, write)
        if work is not None:
            self.clean(work, write)
        for _ in self.retain(logs):
            pass
        return None if work is None else work.log

    def grab_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoint_of: ReadCheckpoint, write: WriteCheckpoint
    ) -> LogToClean | None:
        """The log to clean next, now in progress. Wrong checkpoints are corrected on the way."""
        looking = self.look_for_filthiest(logs, checkpoint_of, write)
        while True:
            try:
                next(looking)
            except StopIteration as end:
                found: LogToClean | None = end.value
                return found

    def look_for_filthiest(
        self, logs: Mapping[TopicPartition, Log], checkpoint_of: ReadCheckpoint, write: WriteCheckpoint
    ) -> Generator[None, None, LogToClean | None]:
        """The same in pieces, for who has other things to do in between."""
        due = []
        for number, (partition, log) in enumerate(list(logs.items()) if self.is_enabled else ()):
            if number % LOGS_IN_A_PIECE == 0:
                yield
            if not self._is_free(partition, log):
                continue
            yield
            if not self._is_free(partition, log):
                continue  # cut, or deleted, meanwhile
            work = self._measure(log, checkpoint_of)
            if work is None:
                continue
            if work.checkpoint_was_wrong:
                self._correct(work, checkpoint_of(partition), write)
            if work.clean_bytes + work.cleanable_bytes and work.is_due:
                due.append(work)
        return self._choose(due, logs, checkpoint_of)

    def _choose(
        self, due: list[LogToClean], logs: Mapping[TopicPartition, Log], checkpoint_of: ReadCheckpoint
    ) -> LogToClean | None:
        """The filthiest that still may be cleaned. Measured anew: looking took its time, and the log may have been cut meanwhile."""
        for found in sorted(due, key=lambda work: work.ratio, reverse=True):
            log, partition = found.log, found.log.partition
            if logs.get(partition) is log and self._is_free(partition, log):
                work = self._measure(log, checkpoint_of)
                if work is not None and work.is_due:
                    self._under_way[partition] = work
                    return work
        return None

    def _measure(self, log: Log, checkpoint_of: ReadCheckpoint) -> LogToClean | None:
        """None when that fails, which says nothing about the other logs."""
        try:
            return measure(log, checkpoint_of(log.partition))
        except OSError as error:
            self._failed(log, error)
        except Exception as damage:
            self._mark_uncleanable(log.partition, damage)
        return None

    def _is_free(self, partition: TopicPartition, log: Log) -> bool:
        usable = log.config.compact and not (log.is_failed or log.is_closed or log.is_read_only)
        is_held = partition in self._under_way or partition in self._pauses
        return usable and not is_held and partition not in self.uncleanable

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
        self._cleaning = work
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
        is_wanted = self._may_go_on(work)
        if self._under_way.get(partition) is work:
            del self._under_way[partition]
        if not is_wanted:
            # Ended on purpose. Whatever it met since, files that went away under its hands included, says nothing about the log.
            logger.info("%s: cleaning aborted: the log is needed", work.log.directory)
            return None
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
        write(partition, end_offset)
        return outcome if isinstance(outcome, CleanerStats) else None

    def _failed(self, log: Log, error: OSError) -> None:
        if error.errno in DISK_FULL:
            logger.warning("%s: not cleaned: %s; it is tried again later", log.directory, error.strerror)
        else:
            log.fail(error)

    def _mark_uncleanable(self, partition: TopicPartition, damage: Exception) -> None:
        self.uncleanable[partition] = str(damage)
        foreseen = isinstance(damage, MilepostError)
        logger.error(
            "%s: not cleaned any more until it is repaired: %s", partition, damage, exc_info=None if foreseen else damage
        )

    def _advance(self, count: int) -> None:
        self._ensure_wanted()
        pause = self._throttle.pause_after(count)
        while pause > 0:
            # In short pieces: whoever needs the log does not wait for a slow cleaning.
            self._throttle.sleep(min(pause, LONGEST_SLEEP))
            pause -= LONGEST_SLEEP
            self._ensure_wanted()

    def _ensure_wanted(self) -> None:
        work = self._cleaning
        if work is not None and not self._may_go_on(work):
            raise CleaningAborted(f"{work.log.partition}: the log is needed")

    def _may_go_on(self, work: LogToClean) -> bool:
        log = work.log
        return self._under_way.get(log.partition) is work and not log.is_failed and not log.is_closed

    # Retention of compacted logs: a segment must not be deleted while it is rewritten.

    def retain(self, logs: Mapping[TopicPartition, Log]) -> Iterator[None]:
        """One retention pass, in pieces, over the compacted logs that nobody is cleaning."""
        for number, (partition, log) in enumerate(list(logs.items())):
            if number % LOGS_IN_A_PIECE == 0:
                yield
            if self._is_free(partition, log):
                retain(log)
                yield

    # Keeping the cleaner away.

    def abort_all(self) -> None:
        """The process is about to stop."""
        for partition in list(self._under_way):
            self._abort(partition)

    def pause(self, partition: TopicPartition) -> None:
        """From here until `resume` no segment of the partition is replaced; a cleaning that is under way ends."""
        self._abort(partition)
        self._pauses[partition] += 1

    def resume(self, partition: TopicPartition) -> None:
        self._pauses[partition] -= 1
        if not self._pauses[partition]:
            del self._pauses[partition]

    def forget(self, partition: TopicPartition) -> None:
        """The log is gone, or about to go."""
        self._abort(partition)
        self.uncleanable.pop(partition, None)
        self.last_stats.pop(partition, None)

    def _abort(self, partition: TopicPartition) -> None:
        work = self._cleaning
        if work is not None and work.log.partition == partition:
            self.cleaner.finish_swap(work.log)
        self._under_way.pop(partition, None)


def memory_of(config: BrokerConfig) -> tuple[OffsetMap, int]:
    """The map, which takes its memory only as it fills, and the size of the buffers."""
    # One thread cleans, whatever `log.cleaner.threads` says; it has a thread's share of the memory.
    threads = max(1, config.log_cleaner_threads)
    map_bytes = min(config.log_cleaner_dedupe_buffer_size // threads, MOST_MAP_BYTES)
    buffer_bytes = max(1, config.log_cleaner_io_buffer_size // threads // 2)
    return OffsetMap(map_bytes, config.log_cleaner_io_buffer_load_factor), buffer_bytes
