"""One partition on this broker: its log, who leads it, and what consumers may read.

With one replica the broker is the leader and the whole in-sync set, so the high watermark is the log end; or the end of what is
durable, where `flush.messages` asks for that. More replicas join through `followers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.log.append_info import AppendInfo
from milepost.log.log import Log
from milepost.log.partition_name import TopicPartition
from milepost.log.producer_entry import AppendOrigin
from milepost.log.verification import VerificationGuard
from milepost.metrics.topic_metrics import TopicMetrics

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer


class Partition:
    def __init__(self, log: Log, topic_id: bytes, leader_id: int, topic_metrics: TopicMetrics):
        self.log = log
        self.topic_id = topic_id
        self.leader_id = leader_id
        self.is_hosted = True
        self.topic_metrics = topic_metrics
        self.replicas = [leader_id]
        self.in_sync_replicas = [leader_id]
        latest = log.epochs.latest_epoch
        self.leader_epoch = 0 if latest is None else latest

    @property
    def name(self) -> TopicPartition:
        return self.log.partition

    def append(
        self, data: ReadableBuffer, origin: AppendOrigin = AppendOrigin.CLIENT, guard: VerificationGuard | None = None
    ) -> AppendInfo:
        info = self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=origin, verification_guard=guard)
        if not self.log.is_flush_awaited:
            self.log.update_high_watermark(self.log.end_offset)
        return info
