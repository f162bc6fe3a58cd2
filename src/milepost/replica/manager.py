"""The partitions of this broker, and the way into their logs.

Every append and every deletion ends with a look into the purgatory: a fetch may be waiting for just that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from milepost.errors import KafkaStorage, MilepostError
from milepost.log.append_info import AppendInfo
from milepost.log.examination import Examined
from milepost.log.log import Log
from milepost.log.manager import LogManager
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.producer_state.verification import VerificationGuard
from milepost.loop import Timers
from milepost.metrics.topic_metrics import BrokerTopicMetrics
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.partition import Partition, never
from milepost.replica.purgatory import Purgatory
from milepost.replica.refusals import count_refusal
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer


class ReplicaManager:
    def __init__(self, logs: LogManager, timers: Timers, node_id: int, is_fenced: Callable[[], bool] = never):
        self.logs = logs
        self.node_id = node_id
        self._is_fenced = is_fenced
        self.partitions: dict[TopicPartition, Partition] = {}
        self.purgatory = Purgatory(timers)
        # Those with appends that may not be answered before an fsync.
        self.unflushed: set[Partition] = set()
        self.topic_metrics = BrokerTopicMetrics()

    def partition(self, name: TopicPartition) -> Partition | None:
        return self.partitions.get(name)

    def partition_of(self, topic: str, number: int) -> Partition | None:
        return self.partitions.get(TopicPartition(topic, number))

    def host(self, name: TopicPartition, topic_id: bytes, topic_id_text: str | None = None) -> Partition:
        """Serve a partition that no other broker has, with a new log if it has none yet."""
        partition = self.partitions.get(name)
        if partition is None:
            partition = self.add(self.logs.create(name, topic_id=topic_id_text), topic_id)
            partition.lead_alone()
        return partition

    def add(self, log: Log, topic_id: bytes) -> Partition:
        """A partition that neither leads nor follows yet."""
        name = log.partition
        partition = Partition(log, topic_id, self.node_id, self.topic_metrics.of(name.topic), self, self._is_fenced)
        self.partitions[name] = partition
        return partition

    def drop(self, name: TopicPartition) -> None:
        """Serve a partition no more, and delete its log. It stays when that fails, and answers that its directory is offline."""
        partition = self.partitions.get(name)
        if partition is not None:
            self.logs.delete(name)
            del self.partitions[name]
            partition.is_online = False
            self.purgatory.check(name)

    def append(
        self,
        name: TopicPartition,
        data: ReadableBuffer,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
        *,
        for_all: bool = False,
    ) -> AppendInfo:
        """Append to a partition that is known to be here (`Partition.append`)."""
        return self.partitions[name].append(data, origin, guard, examined, for_all=for_all)

    def appended(self, partition: Partition, size: int, records: int) -> None:
        """A batch was appended to a partition's log: count it, and complete the requests that wait for it."""
        if partition.log.is_flush_awaited:
            self.unflushed.add(partition)
            partition.log.when_flushed(lambda failure: self._flushed(partition))
        is_more_committed = partition.advance()
        topic = partition.topic_metrics
        topic.produce_requests += 1
        topic.bytes_in += size
        topic.messages_in += records
        if self.purgatory.watchers:
            self.purgatory.check(partition.name)
            if is_more_committed:
                self.purgatory.check(partition.committed_key)

    def refused(self, partition: Partition, data: ReadableBuffer, error: MilepostError) -> None:
        count_refusal(error, data, partition.topic_metrics, self.topic_metrics)

    def _flushed(self, partition: Partition) -> None:
        log = partition.log
        if not log.is_flush_awaited:
            self.unflushed.discard(partition)
        if partition.has_one_replica and not log.is_failed:
            log.update_high_watermark(max(log.high_watermark, log.recovery_point))
        self.purgatory.check(partition.name)

    def when_durable(self, partitions: Iterable[Partition], then: Callable[[], object]) -> None:
        """Go on when what was appended to these is as durable as their topics want it: at once, or after an fsync; or a log has failed."""
        logs = {partition.name: partition.log for partition in partitions if partition.log.is_flush_awaited}
        waiting = set(logs)

        def flushed(name: TopicPartition, failure: KafkaStorage | None) -> None:
            waiting.remove(name)
            if not waiting:
                then()

        for name, log in logs.items():
            log.when_flushed(partial(flushed, name))
        if not logs:
            then()

    def when_committed(
        self,
        appended: Iterable[tuple[Partition, int]],
        seconds: float,
        done: Callable[[dict[TopicPartition, int]], object],
    ) -> None:
        """Go on when all in-sync replicas have these partitions up to the offsets named: the error code of each, 7 after `seconds`."""
        errors: dict[TopicPartition, int] = {}
        waiting: dict[Hashable, tuple[Partition, int]] = {}
        for partition, end_offset in appended:
            code = partition.acknowledgement(end_offset)
            if code is None:
                waiting[partition.committed_key] = (partition, end_offset)
            else:
                errors[partition.name] = code
        if not waiting:
            done(errors)
            return

        def try_complete(key: Hashable) -> bool:
            if key in waiting:
                partition, end_offset = waiting[key]
                code = partition.acknowledgement(end_offset)
                if code is not None:
                    errors[partition.name] = code
                    del waiting[key]
            return not waiting

        def complete() -> None:
            for partition, _ in waiting.values():
                errors[partition.name] = ErrorCode.REQUEST_TIMED_OUT
            done(errors)

        self.purgatory.wait(list(waiting), try_complete, complete, seconds)
