"""The partitions of this broker, and the way into their logs.

Every append and every deletion ends with a look into the purgatory: a fetch may be waiting for just that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.log.append_info import AppendInfo
from milepost.log.manager import LogManager
from milepost.log.partition_name import TopicPartition
from milepost.log.producer_entry import AppendOrigin
from milepost.log.verification import VerificationGuard
from milepost.replica.partition import Partition
from milepost.replica.purgatory import Purgatory, Timers

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer


class ReplicaManager:
    def __init__(self, logs: LogManager, timers: Timers, node_id: int):
        self.logs = logs
        self.node_id = node_id
        self.partitions: dict[TopicPartition, Partition] = {}
        self.purgatory = Purgatory(timers)

    def partition(self, name: TopicPartition) -> Partition | None:
        return self.partitions.get(name)

    def partition_of(self, topic: str, number: int) -> Partition | None:
        return self.partitions.get(TopicPartition(topic, number))

    def host(self, name: TopicPartition, topic_id: bytes, topic_id_text: str | None = None) -> Partition:
        """Serve a partition, with a new log if it has none yet."""
        partition = self.partitions.get(name)
        if partition is None:
            log = self.logs.create(name, topic_id=topic_id_text)
            log.update_high_watermark(log.end_offset)
            partition = self.partitions[name] = Partition(log, topic_id, self.node_id)
        return partition

    def drop(self, name: TopicPartition) -> None:
        """Serve a partition no more, and delete its log."""
        partition = self.partitions.pop(name, None)
        if partition is not None:
            partition.is_hosted = False
            self.logs.delete(name)
            self.purgatory.check(name)

    def append(
        self,
        name: TopicPartition,
        data: ReadableBuffer,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Append to a partition that is known to be here, and wake whoever waits for it."""
        return self.append_to(self.partitions[name], data, origin, guard)

    def append_to(
        self,
        partition: Partition,
        data: ReadableBuffer,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        info = partition.append(data, origin, guard)
        if self.purgatory.is_watched:
            self.purgatory.check(partition.name)
        return info
