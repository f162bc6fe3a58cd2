"""What logs need now and then, by the clock, in pieces that are short enough to come between two requests.

    every                                            chore
    log.flush.offset.checkpoint.interval.ms          recovery points are checkpointed
    log.flush.start.offset.checkpoint.interval.ms    log starts
    replica.high.watermark.checkpoint.interval.ms    high watermarks
    log.retention.check.interval.ms                  segments too old, or too many, are deleted (compacted logs: with the cleaner's consent)
    producer.id.expiration.check.interval.ms         silent producers are forgotten
    log.flush.scheduler.interval.ms                  logs that were not flushed for `flush.ms` are flushed

The first time comes no earlier than `log.initial.task.delay.ms` after the start; for high watermarks and producers, when their interval
is over (`FROM_THE_START`): in Kafka the delay is that of the log manager's own tasks. Deletions of files that were put off come in
between, when their delay is over.

`pieces` does what is due and yields after each piece: a log, or a handful where there is little to do for each. What waits for
the disk is done aside (scheduler).

Kafka looks for logs to flush only if `log.flush.scheduler.interval.ms` is given, so that `flush.ms` alone does nothing there. Here
it is looked for every second when some topic has a `flush.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from milepost.config.definition import LONG_MAX
from milepost.log.appending import DISK_FULL
from milepost.log.directory.data_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.maintenance.contained import contained
from milepost.log.retention import retain

if TYPE_CHECKING:
    from milepost.clock import Clock
    from milepost.config.broker import BrokerConfig
    from milepost.config.topic import LogConfig
    from milepost.log.cleaning.cleaner_manager import CleanerManager
    from milepost.log.directory.data_directory import DataDirectory
    from milepost.log.log import Log
    from milepost.log.log_source import LogSource
    from milepost.log.maintenance.scheduler import Scheduler
    from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.log")

FLUSH_CHECK_MS = 1000
FROM_THE_START = ("high watermarks", "producers")
LOGS_IN_A_PIECE = 32
PRODUCERS_IN_A_PIECE = 500

Pieces = Iterator[None]


def moved_start(log: Log) -> int | None:
    return log.start_offset if log.start_offset > log.segments.first.base_offset else None


OFFSETS: Mapping[str, Callable[[Log], int | None]] = {
    RECOVERY_POINTS: lambda log: log.recovers_from,
    LOG_STARTS: moved_start,
    HIGH_WATERMARKS: lambda log: log.high_watermark,
}


class MaintainedLogs(Protocol):
    """What maintenance needs of the log manager."""

    config: BrokerConfig
    topics: dict[str, LogConfig]
    clock: Clock
    scheduler: Scheduler
    cleaner: CleanerManager
    logs: dict[TopicPartition, Log]
    directories: list[DataDirectory]
    source: LogSource

    def online(self) -> Iterator[Log]: ...

    def logs_in(self, directory: DataDirectory) -> Iterator[Log]: ...

    def holds(self, log: Log) -> bool: ...

    def take_offline(self, directory: DataDirectory, error: OSError) -> None: ...


class LogMaintenance:
    def __init__(self, manager: MaintainedLogs):
        self._manager = manager
        self._due: dict[str, int] = {}
        # Data directories whose checkpoints are about to be written without partitions that are gone.
        self._forgetting: set[str] = set()

    def pieces(self) -> Pieces:
        """Do whatever is due; nothing ever is in directories of somebody else."""
        manager, config = self._manager, self._manager.config
        if not manager.source.is_ours:
            return
        manager.scheduler.run_due()
        chores: list[tuple[str, int, Callable[[], Pieces]]] = [
            ("recovery points", config.log_flush_offset_checkpoint_interval_ms, lambda: self.checkpoint(RECOVERY_POINTS)),
            ("log starts", config.log_flush_start_offset_checkpoint_interval_ms, lambda: self.checkpoint(LOG_STARTS)),
            ("high watermarks", config.replica_high_watermark_checkpoint_interval_ms, lambda: self.checkpoint(HIGH_WATERMARKS)),
            ("retention", config.log_retention_check_interval_ms, self.retain),
            ("producers", config.producer_id_expiration_check_interval_ms, self.expire_producers),
            ("flush", self._flush_interval_ms(), self.flush_due),
        ]
        for name, interval_ms, chore in chores:
            now = manager.clock.now_ms()
            longest = interval_ms if name in FROM_THE_START else max(interval_ms, config.log_initial_task_delay_ms)
            # A setting that changed counts at once, and not when the old interval is over.
            due = self._due[name] = min(self._due.get(name, now + longest), now + longest)
            if now >= due:
                self._due[name] = now + interval_ms
                yield
                with contained(f"maintenance of {name}"):
                    yield from chore()

    def _flush_interval_ms(self) -> int:
        given, config = self._manager.config.log_flush_scheduler_interval_ms, self._manager.config
        if given < LONG_MAX:
            return given
        is_wanted = config.flush_ms < LONG_MAX or any(topic.flush_ms < LONG_MAX for topic in self._manager.topics.values())
        return FLUSH_CHECK_MS if is_wanted else LONG_MAX

    # Segments, producers, fsyncs.

    def retain(self) -> Pieces:
        """One retention pass over all logs. Compacted ones go through the cleaner, which may be at work on them."""
        for log in self._manager.online():
            if not log.config.compact:
                retain(log)
                yield
        yield from self._manager.cleaner.retain(self._manager.logs)

    def expire_producers(self) -> Pieces:
        now = self._manager.clock.now_ms()
        for log in self._manager.online():
            known = list(log.producers.producers)
            for start in range(0, max(1, len(known)), PRODUCERS_IN_A_PIECE):
                with contained(f"{log.directory}: expiry of producers", log):
                    log.producers.remove_expired(now, known[start : start + PRODUCERS_IN_A_PIECE])
                yield

    def flush_due(self) -> Pieces:
        now = self._manager.clock.now_ms()
        for number, log in enumerate(self._manager.online()):
            if now - log.last_flush_ms >= log.config.flush_ms:
                with contained(f"{log.directory}: flush", log):
                    log.flush_in_background()
                yield
            elif number % LOGS_IN_A_PIECE == 0:
                yield

    # Checkpoints.

    def checkpoint(self, name: str) -> Pieces:
        for directory in list(self._manager.directories):
            published, offsets = -1, {}
            while published != directory.publications:
                # What was published since the first piece is newer than what was gathered, and may not be overwritten.
                published = directory.publications
                offsets = yield from self._gather(directory, OFFSETS[name])
            if directory in self._manager.directories:  # or it has gone offline meanwhile
                self.write(directory, name, offsets)

    def _gather(
        self, directory: DataDirectory, offset_of: Callable[[Log], int | None]
    ) -> Generator[None, None, dict[TopicPartition, int]]:
        found: list[tuple[Log, int]] = []
        for number, log in enumerate(self._manager.logs_in(directory), 1):
            offset = offset_of(log)
            if offset is not None:
                found.append((log, offset))
            if number % LOGS_IN_A_PIECE == 0:
                yield
        return {log.partition: offset for log, offset in found if self._manager.holds(log)}

    def write(self, directory: DataDirectory, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """An older checkpoint costs time at the next start, no record: one that finds no room is left for the next time."""
        failed = partial(self.not_written, directory)
        self._manager.scheduler.in_background(directory.publish(name, offsets), lambda _: None, failed)

    def not_written(self, directory: DataDirectory, error: OSError) -> None:
        if error.errno not in DISK_FULL:
            self._manager.take_offline(directory, error)
        else:
            where = error.filename or directory.path
            logger.warning("%s: %s; the checkpoint is written when there is room again", where, error.strerror)

    # Checkpoints without partitions that are gone.

    def forget(self, directory: DataDirectory, partition: TopicPartition) -> None:
        """At once, as Kafka: else the next log of that name starts where this one did. Those that go while a rewrite is on its way share
        the next."""
        if not directory.names(partition):
            return
        directory.forget(partition)
        if directory.path not in self._forgetting:
            self._forgetting.add(directory.path)
            self._manager.scheduler.next_pass(partial(self._rewrite, directory))

    def _rewrite(self, directory: DataDirectory) -> None:
        if directory not in self._manager.directories:
            self._forgetting.discard(directory.path)
            return
        write, written = directory.rewriting()

        def ended(_: None) -> None:
            written()
            if directory.names_the_gone:
                self._rewrite(directory)
            else:
                self._forgetting.discard(directory.path)

        def failed(error: OSError) -> None:
            self._forgetting.discard(directory.path)
            self.not_written(directory, error)

        self._manager.scheduler.in_background(write, ended, failed)

    def ensure_unnamed(self, directory: DataDirectory, partition: TopicPartition) -> None:
        """Before there is a log of that name: what a file says of an earlier one would be taken for its own after a crash."""
        if directory.names(partition):
            self._manager.scheduler.wait(lambda: not directory.names(partition))
        if directory.names(partition):
            directory.forget_now(partition)
