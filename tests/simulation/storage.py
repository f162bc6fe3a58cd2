"""The logs of one broker from one seed: two data directories, and everything that goes on in them at once.

Topics are made, written, led in new epochs, cut, emptied, given another cleanup.policy, deleted and made again, while retention,
checkpoints and a cleaning are half done, side threads are late, somebody still works with a log that is gone, there is no room for the
file of epochs, a directory fails, and the process is killed or stopped. One turn, one step of one of them.

What must hold at any time:

    died         nothing but our own errors comes out of a turn
    offline      a data directory goes offline only when its disk failed
    foreign      a log holds only what was written to it, and was not cut since
    lost         every record is there that retention, a deletion of records or compaction could not remove
    checkpoint   none has a log start or a recovery point beyond that of its log
    epoch        a log knows of no epoch but its own, in its file as in memory, and the epoch of each of its batches
"""

from __future__ import annotations

import errno
import os
import random
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage, MilepostError
from milepost.log.directory.data_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.epochs import FILE_NAME as EPOCHS
from milepost.log.epochs import LeaderEpochCache
from milepost.log.log import Log
from milepost.log.maintenance.scheduler import Task, WorkQueue
from milepost.log.manager import LogManager
from milepost.log.retention import delete_old_segments
from milepost.record.batch import RecordBatch
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.crash.memory_disk import State
from tests.simulation.late_threads import Cleaning, LateThreads
from tests.simulation.stored import contents, topic_settings
from tests.simulation.two_disks import TwoDisks
from tests.simulation.written import Written

NOW = 1_700_000_000_000
DIRECTORIES = ("/a", "/b")
NAMES = tuple(TopicPartition(topic, 0) for topic in ("one", "two", "three", "four"))
POLICIES = ("delete", "compact", "compact", "compact,delete")


MOST_GONE = 4
TURNS = 400
TURNS_BETWEEN_LOOKS = 10


@dataclass
class Finding:
    rule: str
    what: str


class StorageRun:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.clock = ManualClock(NOW)
        self.disk = TwoDisks({}, DIRECTORIES)
        self.written: dict[TopicPartition, Written] = {}
        self.topics: dict[str, dict[str, object]] = {}
        self.findings: list[Finding] = []
        self.trace: list[str] = []
        # Logs that were deleted, and that somebody still holds.
        self.gone: list[Log] = []
        self._number = 0
        self._start()

    # The process.

    def _start(self) -> None:
        config = {"log.dirs": ",".join(DIRECTORIES), "log.cleaner.dedupe.buffer.size": 2 << 20}
        self.manager = LogManager(
            BrokerConfig.parse(config), self.topics, disk=self.disk, clock=self.clock, rng=random.Random(self.random.random())
        )
        self.manager.startup()
        self.threads = LateThreads(self.clock)
        self.manager.scheduler = self.threads
        for log in self.manager.logs.values():
            log.scheduler = self.threads
            log.epochs.write_in_background = log.write_epochs_in_background
            log.update_high_watermark(log.end_offset)
            if log.partition not in self.written:
                self.written[log.partition] = self._as_found(log)
        self.cleaning: Cleaning | None = None
        self.passing: Iterator[object] = iter(())

    def _as_found(self, log: Log) -> Written:
        found = Written(was_compacted=True, was_deleted_from=True, deleted_to=log.start_offset, started_at=log.end_offset)
        found.records = contents(log)
        found.epochs = [entry.epoch for entry in log.epochs.entries] or [self._next_number()]
        return found

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def kill(self) -> None:
        self._end(self.disk.state())

    def stop(self) -> None:
        self.manager.cleaner.abort_all()
        while self.cleaning is not None:
            self.clean()
        self.threads.wait()
        self.threads.is_background = False
        self.manager.shutdown()
        self._end(self.disk.state())

    def _end(self, state: State) -> None:
        directories, broken = set(self.disk.directories), self.disk.broken
        for name in map(str, NAMES):
            if broken is not None and all(f"{path}/{name}" in directories for path in DIRECTORIES):
                # One that could not be made there was made in the other: the start wants one of them moved away.
                state = {path: data for path, data in state.items() if not path.startswith(f"{broken}/{name}/")}
                directories.remove(f"{broken}/{name}")
        if self.cleaning is not None:
            self.cleaning.abandon()
        self.gone.clear()
        self.disk.die()
        self.disk = TwoDisks(state, directories)
        self._start()
        self.look()

    # What users and other brokers do.

    def any_log(self) -> Log | None:
        logs = list(self.manager.online())
        return self.random.choice(logs) if logs else None

    def log_in_work(self) -> Log | None:
        """Where it hurts: half of the time the one that is being cleaned."""
        log = None if self.cleaning is None else self.cleaning.work.log
        is_there = log is not None and self.manager.holds(log) and not log.is_failed
        return log if is_there and self.random.random() < 0.5 else self.any_log()

    def append(self) -> None:
        log = self.any_log()
        for _ in range(self.random.randrange(1, 4) if log is not None else 0):
            assert log is not None
            written = self.written[log.partition]
            key, value, now = b"k%d" % self.random.randrange(5), b"value %d" % self._next_number(), self.clock.now_ms()
            batch = build_batch([Record(0, now, key, value)])
            offset = log.append_as_leader(batch, leader_epoch=written.epochs[-1]).first_offset
            written.records[offset] = (key, value, now)
            log.update_high_watermark(log.end_offset)

    def elect(self) -> None:
        log = self.any_log()
        if log is not None:
            self.written[log.partition].epochs.append(self._next_number())
            log.assign_epoch(self._number)

    def cut(self) -> None:
        log = self.log_in_work()
        if log is not None and log.end_offset > log.start_offset:
            offset = self.random.randrange(log.start_offset, log.end_offset)
            log.truncate_to(offset)
            self._is_cut(log, offset)

    def empty(self) -> None:
        log = self.log_in_work()
        if log is not None:
            log.truncate_fully_and_start_at(log.end_offset + 5)
            self._is_cut(log, 0)

    def _is_cut(self, log: Log, offset: int) -> None:
        """What is written there from now on is of another leader."""
        self.written[log.partition].cut(offset)
        self.written[log.partition].epochs.append(self._next_number())

    def delete_records(self) -> None:
        log = self.any_log()
        if log is not None and log.config.delete and log.high_watermark > log.start_offset:
            offset = self.random.randrange(log.start_offset, log.high_watermark)
            # From here on they may be gone, whether or not this comes to its end.
            self.written[log.partition].deleted_to = max(self.written[log.partition].deleted_to, offset)
            log.delete_records(offset)

    def create(self) -> None:
        missing = [name for name in NAMES if name not in self.manager.logs]
        if missing:
            self._create(self.random.choice(missing))

    def _create(self, name: TopicPartition) -> None:
        policy = self.random.choice(POLICIES)
        self.topics[name.topic] = settings = topic_settings(policy)
        log = self.manager.create(name, settings)
        self.written[name] = Written(epochs=[self._next_number()])
        self.written[name].use(policy)
        if (log.start_offset, log.end_offset) != (0, 0):
            self.find("foreign", f"{name} is new, and goes from {log.start_offset} to {log.end_offset}")

    def delete(self) -> Log | None:
        log = self.log_in_work()
        if log is not None:
            self.manager.delete(log.partition)
            del self.written[log.partition]
            self.gone = [*self.gone, log][-MOST_GONE:]
        return log

    def delete_and_create(self) -> None:
        log = self.delete()
        if log is not None:
            self._create(log.partition)
            for _ in range(self.random.randrange(12)):
                self.append()

    def come_late(self) -> None:
        """Somebody who has not heard that a log is gone: refused, or without effect."""
        if self.gone:
            log, offset = self.random.choice(self.gone), self.random.randrange(20)
            late: list[Task] = [
                log.flush,
                log.flush_in_background,
                log.roll,
                lambda: log.append_as_leader(build_batch([Record(0, self.clock.now_ms(), b"late", b"late")])),
                lambda: log.assign_epoch(self._next_number()),
                lambda: log.truncate_to(offset),
                lambda: log.truncate_fully_and_start_at(offset),
                lambda: log.increment_start(min(offset, log.high_watermark)),
                lambda: delete_old_segments(log),
            ]
            with suppress(KafkaStorage):
                self.random.choice(late)()

    def alter(self) -> None:
        log = self.log_in_work()
        if log is not None:
            policy = self.random.choice(POLICIES)
            self.topics[log.partition.topic] = settings = topic_settings(policy)
            self.written[log.partition].use(policy)
            log.update_config(LogConfig.parse(settings, self.manager.config))

    # What goes on by itself.

    def flush(self) -> None:
        log = self.any_log()
        if log is not None:
            log.flush_in_background()

    def pass_on(self) -> None:
        """The next piece of maintenance."""
        if next(self.passing, self) is self:
            maintenance = self.manager.maintenance
            name = self.random.choice((RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS))
            self.passing = self.random.choice(
                (
                    *[maintenance.retain] * 2,
                    maintenance.flush_due,
                    lambda: maintenance.checkpoint(name),
                    *[self._look_for_dirty_logs] * 2,
                )
            )()

    def _look_for_dirty_logs(self) -> Iterator[None]:
        manager = self.manager
        if self.cleaning is None:
            work = yield from manager.cleaner.look_for_filthiest(
                manager.logs, manager.cleaner_offset, manager.write_cleaner_offset
            )
            if work is not None:
                self.cleaning = Cleaning(manager, work)
        yield from manager.cleaner.retain(manager.logs)

    def clean(self) -> None:
        cleaning = self.cleaning
        if cleaning is not None and cleaning.turn():
            self.cleaning = None
            self.manager.cleaner.cleaned(cleaning.work, cleaning.outcome, self.manager.write_cleaner_offset)

    def work_aside(self) -> None:
        self.threads.work(self.random.choice(list(WorkQueue)))

    def hear(self) -> None:
        self.threads.end()
        if self.threads.posted:
            self.threads.posted.pop(0)()

    def wait(self) -> None:
        self.clock.advance(self.random.randrange(5_000))
        self.threads.run_due()

    def fill_up(self) -> None:
        self.disk.has_room = not self.disk.has_room

    def break_directory(self) -> None:
        if self.disk.broken is None:
            self.disk.broken = self.random.choice(DIRECTORIES)

    # Turns.

    def run(self) -> StorageRun:
        often = (self.append, self.append, self.pass_on, self.pass_on, self.clean, self.work_aside, self.hear)
        sometimes = (
            self.cut,
            self.delete,
            self.create,
            self.create,
            self.delete_and_create,
            self.delete_records,
            self.flush,
            self.wait,
            self.elect,
            self.come_late,
            self.fill_up,
        )
        rarely = (self.empty, self.alter, self.alter, self.kill, self.stop, self.break_directory)
        for number in range(TURNS):
            chance = self.random.random()
            self.turn(self.random.choice(often if chance < 0.75 else sometimes if chance < 0.97 else rarely))
            if number % TURNS_BETWEEN_LOOKS == 0:
                self.look()
            if self.findings:
                break
        if self.cleaning is not None:
            self.cleaning.abandon()
        self.disk.die()
        return self

    def turn(self, event: Task) -> None:
        self.trace.append(event.__name__)
        broken = self.disk.broken
        try:
            event()
        except KafkaStorage as error:
            if broken is None:
                self.find("died", f"{event.__name__}: {error}")
        except Exception as error:
            self.find("died", f"{event.__name__}: {type(error).__name__}: {error}")
        self._forget_what_is_offline()

    def _forget_what_is_offline(self) -> None:
        """What a failing disk took is not known any more; it counts again as it is found at the next start."""
        for path in self.manager.offline:
            if path != self.disk.broken:
                self.find("offline", self.manager.offline[path])
        online = {log.partition for log in self.manager.online()}
        broken = self.disk.broken
        for name, log in self.manager.logs.items():
            if name in self.written:
                self.written[name].started_at = max(self.written[name].started_at, log.start_offset)
            if name not in online or (broken is not None and log.directory.startswith(broken)):
                self.written.pop(name, None)
        if broken is not None and broken not in self.manager.offline:
            for log in list(self.manager.online()):
                if log.directory.startswith(broken):
                    log.fail(OSError(errno.EIO, os.strerror(errno.EIO), log.directory))

    def find(self, rule: str, what: str) -> None:
        self.findings.append(Finding(rule, what))

    def look(self) -> None:
        for name, written in list(self.written.items()):
            log = self.manager.logs.get(name)
            if log is None or log.is_failed:
                continue
            try:
                found = contents(log)
            except (MilepostError, OSError) as damage:
                self.find("lost", f"{name} cannot be read: {damage}")
                continue
            for at, record in found.items():
                if at not in written.records or written.records[at] != record:
                    self.find("foreign", f"{name} has {record} at {at}; written was {written.records.get(at)}")
            for at, wanted in written.must_have(self.clock.now_ms()).items():
                if found.get(at) != wanted or at < log.start_offset:
                    self.find("lost", f"{name}: {wanted} at {at}; log from {log.start_offset} to {log.end_offset}")
            self._look_at_epochs(log, written)
        for directory in self.manager.directories:
            for log in self.manager.logs_in(directory):
                start, point = directory.log_starts.get(log.partition, 0), directory.recovery_points.get(log.partition, 0)
                if start > log.start_offset or point > log.recovery_point:
                    self.find(
                        "checkpoint", f"{log.partition}: start {start} of {log.start_offset}, {point} of {log.recovery_point}"
                    )

    def _look_at_epochs(self, log: Log, written: Written) -> None:
        known = log.epochs.entries
        for entry in (*known, *LeaderEpochCache.read(f"{log.directory}/{EPOCHS}", self.disk)):
            if entry.epoch not in written.epochs:
                self.find("epoch", f"{log.partition} knows of epoch {entry.epoch}; its own are {written.epochs}")
        starts = [entry.start_offset for entry in known]
        for segment in log.segments:
            for _, batch in segment.log.batches():
                if isinstance(batch, RecordBatch) and batch.base_offset >= written.started_at:
                    slot = bisect_right(starts, batch.base_offset) - 1
                    if slot < 0 or known[slot].epoch != batch.partition_leader_epoch:
                        what = f"the batch at {batch.base_offset} is of epoch {batch.partition_leader_epoch}"
                        self.find("epoch", f"{log.partition}: {what}; it knows of {known}")
