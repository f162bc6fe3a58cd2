"""One partition on this broker: its log, who leads it, and what consumers may read.

With one replica the broker is the leader and the whole in-sync set, so the high watermark is the log end; or the end of what is
durable, where `flush.messages` asks for that. In a cluster a partition is a `ReplicatedPartition`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.errors import NotEnoughReplicas, NotLeaderOrFollower
from milepost.log.append_info import AppendInfo
from milepost.log.examination import Examined
from milepost.log.log import Log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.producer_state.verification import VerificationGuard
from milepost.metrics.topic_metrics import TopicMetrics
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer


class Partition:
    is_solo = True
    """Whether an append is all it takes: nobody else has to have it, and nobody can take the leadership away."""

    def __init__(self, log: Log, topic_id: bytes, leader_id: int, topic_metrics: TopicMetrics):
        self.log = log
        self.topic_id = topic_id
        self.leader_id = leader_id
        self.is_hosted = True
        self.topic_metrics = topic_metrics
        self.replicas = [leader_id]
        latest = log.epochs.latest_epoch
        self.leader_epoch = 0 if latest is None else latest

    @property
    def name(self) -> TopicPartition:
        return self.log.partition

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads it."""
        return True

    @property
    def knows_what_is_committed(self) -> bool:
        """Not before a new leader's high watermark has reached the start of its epoch."""
        return True

    @property
    def in_sync_replicas(self) -> list[int]:
        return [self.leader_id]

    @property
    def committed_key(self) -> Hashable:
        """What those wait for in the purgatory who want more to be committed; `name` is for more to be appended."""
        return self.log.partition

    def fault(self, *, only_leader: bool = True) -> int:
        """Why this broker cannot serve the partition now, as an error code. Only its leader may, or any replica."""
        return ErrorCode.NONE

    def acknowledgement(self, end_offset: int) -> int | None:
        """What to tell a producer who wants all in-sync replicas to have everything before `end_offset`; None: not yet."""
        return ErrorCode.NONE

    def ensure_enough_replicas(self) -> None:
        """Before an append that all in-sync replicas must have."""

    def refused(self, data: ReadableBuffer, error: NotLeaderOrFollower | NotEnoughReplicas) -> None:
        """A batch was refused for a reason that may soon be over."""

    def append(
        self,
        data: ReadableBuffer,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
    ) -> AppendInfo:
        return self.log.append_as_leader(
            data, leader_epoch=self.leader_epoch, origin=origin, verification_guard=guard, examined=examined
        )

    def advance(self) -> bool:
        """After an append: whether others than those who wait for the append itself have something to read now."""
        if not self.log.is_flush_awaited:
            self.log.update_high_watermark(self.log.end_offset)
        return False
