"""Making staged batches part of a log: all of a job's, once, whatever is killed when.

    1  take the directory's lock
    2  an interrupted commit of another job that came as far as being named in milepost.sink.json is finished; what any other appended, and
       nobody can have seen, is cut off again
    3  a stream's batch that milepost.sink.json names as written is done: nothing happens
    4  write JOB/commit.json: for each partition the end of its log, and the staged files in their order
    5  append the files, each batch re-based to the end of the log (its CRC does not cover offset and epoch)
    6  flush; name the batch in milepost.sink.json; move the high watermarks; let go

Readers go by the checkpointed high watermarks, which are written once, at the end: they see all of it or nothing. A commit under an id that
was interrupted (a stream's batch, or a write with commitId) is taken up by the next attempt under this id: it finds commit.json, sees from
the log how many of the batches are there already (from the noted end on, with the CRCs of the staged ones), and appends the rest. So
nothing comes twice even if a broker was started over the directory in between, for which everything in a log counts.

`milepost.sink.json` in the data directory (Kafka ignores it): `{"version": 1, "queries": {"QUERY ID": LAST BATCH ID}}`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.errors import CorruptRecord, KafkaStorage
from milepost.files import Disk, opened, read_file, replace_file
from milepost.log.directory.data_directory import HIGH_WATERMARKS
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.log.reading import Isolation
from milepost.record.batches import iter_batches
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import COMMIT_FILE, StagedFile, make_directory, remove_tree
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")

FILE_NAME = "milepost.sink.json"
VERSION = 1
CHUNK = 8 << 20


class Commit:
    def __init__(self, options: SinkOptions, job: str, disk: Disk | None = None):
        assert options.path is not None
        self.options = options
        self.path = options.path
        self.staged = self.job = job
        """Where this attempt has staged its files; where what is committed was staged, which may be an earlier attempt's."""
        self.disk = disk or Disk()

    def run(self, files: Sequence[StagedFile], query: str | None = None, batch_id: int | None = None) -> int:
        """Append what the files hold; how many records that were. 0 when the batch was committed before."""
        self._check_seen(files)
        if not self.disk.exists(self.path):
            make_directory(self.disk, self.path)
        config = BrokerConfig.parse({"log.dirs": self.path, "log.segment.bytes": self.options.segment_bytes})
        logs = LogManager(config)
        logs.startup()
        try:
            self._show_what_is_there(logs)
            self._take_up(query, batch_id)
            self._settle_interrupted(logs)
            if query is not None and batch_id is not None and self._committed(query) >= batch_id:
                logger.info("batch %d of query %s is in %s already", batch_id, query, self.path)
                records = 0
            else:
                records = self._commit(logs, files, query, batch_id)
        finally:
            logs.shutdown()
        remove_tree(self.disk, self.job)
        remove_tree(self.disk, self.staged)
        return records

    def _check_seen(self, files: Sequence[StagedFile]) -> None:
        for file in files:
            if not self.disk.exists(file.path):
                raise KafkaStorage(
                    f"{file.path}: staged by a task, and the driver does not see it; nothing was written. "
                    f"Mount {os.path.dirname(self.path)} at the same place on the driver and on every executor"
                )

    def _take_up(self, query: str | None, batch_id: int | None) -> None:
        """An interrupted commit under the same id is finished instead of begun anew: some of it may have been seen meanwhile."""
        for job, noted in self._begun():
            if query is not None and (noted.get("query"), noted.get("batch")) == (query, batch_id):
                self.job = job

    def _commit(self, logs: LogManager, files: Sequence[StagedFile], query: str | None, batch_id: int | None) -> int:
        plan = self._plan(logs, files, query, batch_id)
        records = self._append(logs, plan)
        if query is not None and batch_id is not None:
            self._note(query, batch_id)
        for name in plan:
            log = logs.logs[TopicPartition(*name)]
            log.update_high_watermark(log.end_offset)
        return records

    def _show_what_is_there(self, logs: LogManager) -> None:
        """Logs that no checkpoint names were put there whole: all of them counts."""
        named = {name for directory in logs.directories for name in directory.high_watermarks}
        for name, log in logs.logs.items():
            if name not in named:
                log.update_high_watermark(log.end_offset)

    def _settle_interrupted(self, logs: LogManager) -> None:
        """Show what other commits have named, then cut off what they have not: what is named may lie where something was cut off before."""
        begun = list(self._begun())
        settled = [job for job, noted in begun if self._is_named(noted)]
        for job, noted in begun:
            for log, start in planned_logs(logs, noted) if job in settled else ():
                if log.high_watermark <= start < log.end_offset:
                    log.update_high_watermark(log.end_offset)
        for job, noted in begun:
            if job not in settled and job != self.job and self._cut_off(logs, noted):
                settled.append(job)
        checkpoint(logs)
        for job in settled:
            self.disk.unlink(f"{job}/{COMMIT_FILE}")

    def _cut_off(self, logs: LogManager, noted: dict[str, Any]) -> bool:
        """Whether nothing is left of it. What somebody may have seen, a broker's consumer, say, stays: whoever runs it again under its id
        must know what is there."""
        seen = False
        for log, start in planned_logs(logs, noted):
            if log.high_watermark > start:
                seen = True
            elif log.end_offset > start:
                logger.warning("%s: cut back to %d: a commit was interrupted there", log.partition, start)
                log.truncate_to(start)
        return not seen or noted.get("query") is None

    def _begun(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Jobs whose commit has begun and not ended, and what it was to be."""
        staging = os.path.dirname(self.job)
        for name in sorted(self.disk.listdir(staging)):
            path = f"{staging}/{name}/{COMMIT_FILE}"
            if self.disk.exists(path):
                yield f"{staging}/{name}", json.loads(read_file(self.disk, path))

    def _is_named(self, noted: dict[str, Any]) -> bool:
        query = noted.get("query")
        return query is not None and self._committed(query) >= noted["batch"]

    # What was done.

    def _committed(self, query: str) -> int:
        return int(self._noted().get("queries", {}).get(query, -1))

    def _noted(self) -> dict[str, Any]:
        path = f"{self.path}/{FILE_NAME}"
        try:
            found = json.loads(read_file(self.disk, path))
        except FileNotFoundError:
            return {"version": VERSION, "queries": {}}
        except ValueError as error:
            raise KafkaStorage(
                f"{path}: not what a sink wrote ({error}); restore it, or move it away if no query writes here"
            ) from error
        return dict(found)

    def _note(self, query: str, batch_id: int) -> None:
        noted = self._noted()
        noted["queries"] = {**noted["queries"], query: batch_id}
        replace_file(self.disk, f"{self.path}/{FILE_NAME}", json.dumps(noted, indent=1, sort_keys=True).encode())

    # What is to be done.

    def _plan(
        self, logs: LogManager, files: Sequence[StagedFile], query: str | None, batch_id: int | None
    ) -> dict[tuple[str, int], dict[str, Any]]:
        """For each partition: where it ended when the commit began, and the files to append. The same after a restart."""
        path = f"{self.job}/{COMMIT_FILE}"
        if self.disk.exists(path):
            return read_plan(self.disk, path)
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for file in sorted(files, key=lambda each: (each.partition, each.path)):
            name = (file.partition.topic, file.partition.partition)
            if name not in found:
                log = logs.get(file.partition)
                start = log.end_offset if log is not None else 0
                found[name] = {"topic": name[0], "partition": name[1], "start": start, "files": [], "records": 0}
            found[name]["files"].append(file.path)
            found[name]["records"] += file.records
        noted = {"version": VERSION, "query": query, "batch": batch_id, "partitions": list(found.values())}
        replace_file(self.disk, path, json.dumps(noted).encode())
        return found

    def _append(self, logs: LogManager, plan: dict[tuple[str, int], dict[str, Any]]) -> int:
        for topic in sorted({topic for topic, _ in plan}):
            self._make_topic(logs, topic)
        # A log that no checkpoint names is read to its end, so all are named before anything is appended.
        checkpoint(logs)
        # Nearly all of it is reading, checksums, writing and fsync, which let other threads go on.
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(lambda name: self._append_to(logs.logs[TopicPartition(*name)], plan[name]), plan))
        return sum(each["records"] for each in plan.values())

    def _append_to(self, log: Log, planned: dict[str, Any]) -> None:
        appended = appended_since(log, planned["start"])
        for path in planned["files"]:
            for batch in staged_batches(self.disk, path):
                if appended and appended[0] == batch[17:21]:
                    appended.pop(0)
                else:
                    appended = []
                    append(log, batch)
        log.flush()

    def _make_topic(self, logs: LogManager, topic: str) -> None:
        """A topic that is new gets all its partitions: the last one first, whose number says how many there are if this is killed."""
        there = [name.partition for name in logs.logs if name.topic == topic]
        many = max(there) + 1 if there else self.options.partitions
        if not there:
            logs.topics.setdefault(topic, LogConfig.parse({"segment.bytes": self.options.segment_bytes}))
        for number in reversed(range(many)):
            logs.create(TopicPartition(topic, number))


def checkpoint(logs: LogManager) -> None:
    """Write down how far readers may go."""
    for _ in logs.maintenance.checkpoint(HIGH_WATERMARKS):
        pass


def planned_logs(logs: LogManager, noted: dict[str, Any]) -> Iterator[tuple[Log, int]]:
    """The logs that a commit was to append to, as far as they exist, and where each of them ended then."""
    for each in noted["partitions"]:
        log = logs.get(TopicPartition(each["topic"], each["partition"]))
        if log is not None:
            yield log, each["start"]


def read_plan(disk: Disk, path: str) -> dict[tuple[str, int], dict[str, Any]]:
    return {(each["topic"], each["partition"]): each for each in json.loads(read_file(disk, path))["partitions"]}


def append(log: Log, batch: memoryview) -> None:
    """At the end of the log, in its latest epoch."""
    batch[0:8] = log.end_offset.to_bytes(8, "big")
    batch[12:16] = (log.epochs.latest_epoch or 0).to_bytes(4, "big")
    log.append_as_follower(batch)


def appended_since(log: Log, offset: int) -> list[bytes]:
    """The CRCs of the batches from an offset on."""
    found: list[bytes] = []
    at = offset
    while at < log.end_offset:
        data = log.read(at, CHUNK, Isolation.LOG_END).data
        for batch in iter_batches(data):
            if batch.base_offset >= offset:
                found.append(bytes(data[batch.position + 17 : batch.position + 21]))
            at = batch.next_offset
    return found


def staged_batches(disk: Disk, path: str) -> Iterator[memoryview]:
    """The batches of a file, each until the next is asked for: a piece of the file at a time, in one buffer."""
    buffer, position = bytearray(CHUNK), 0
    with opened(disk, path) as fd:
        size = disk.size(fd)
        while position < size:
            there = disk.pread_into(fd, buffer, position)
            used = 0
            for batch in iter_batches(buffer, 0, there, where=path):
                used += batch.size
                yield batch.view()
            if not used and there < len(buffer):
                raise CorruptRecord(f"{path}: {there} bytes at position {position} are not a whole batch")
            if not used:
                buffer = bytearray(2 * len(buffer))
            position += used
