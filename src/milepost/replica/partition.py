"""One partition on this broker: its log, who leads it, what consumers may read, and the one way into its log (`append`).

With one replica the broker is the leader and the whole in-sync set, so the high watermark is the log end; or the end of what is
durable, where `flush.messages` asks for that. In a cluster a partition is a `ReplicatedPartition`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

from milepost.errors import MilepostError, NotEnoughReplicas, NotLeaderOrFollower
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


CLIENT = AppendOrigin.CLIENT


class AppendObserver(Protocol):
    """What every append to any partition of a broker is followed by: it is counted, and who waits for it is woken."""

    def appended(self, partition: Partition, size: int, records: int) -> None: ...

    def refused(self, partition: Partition, data: ReadableBuffer, error: MilepostError) -> None: ...


class Partition:
    is_solo = True
    """Whether an append is all it takes: nobody else has to have it, and nobody can take the leadership away."""

    def __init__(self, log: Log, topic_id: bytes, leader_id: int, topic_metrics: TopicMetrics, observer: AppendObserver):
        self._observer = observer
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

    # Appending.

    @property
    def has_followers(self) -> bool:
        """Whether other replicas must have an append before it is acknowledged with acks=all."""
        return False

    def append(
        self,
        data: ReadableBuffer,
        origin: AppendOrigin = CLIENT,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
        *,
        for_all: bool = False,
    ) -> AppendInfo:
        """Append one batch as the leader: the one way into the log for clients, coordinators and markers.

        Asked in this order: is it led here, is this broker fenced, was a batch before this one refused, are enough replicas in sync
        (`for_all`: acks=all); then the log decides, under the guard of a transaction that begins here. Counted whether it is appended
        or refused.
        """
        try:
            info = self._append(data, origin, guard, examined, for_all)
        except MilepostError as error:
            if origin is CLIENT and isinstance(error, NotLeaderOrFollower | NotEnoughReplicas):
                self.note_refused(data, error)
            self._observer.refused(self, data, error)
            raise
        self._observer.appended(self, len(data), info.last_offset - info.first_offset + 1)
        return info

    def _append(
        self,
        data: ReadableBuffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        examined: Examined | None,
        for_all: bool,
    ) -> AppendInfo:
        return self.log.append_as_leader(
            data, leader_epoch=self.leader_epoch, origin=origin, verification_guard=guard, examined=examined
        )

    def note_refused(self, data: ReadableBuffer, error: NotLeaderOrFollower | NotEnoughReplicas) -> None:
        """A client's batch was refused for a reason that may soon be over: those sent behind it are to be refused alike."""

    def advance(self) -> bool:
        """After an append: whether others than those who wait for the append itself have something to read now."""
        if not self.log.is_flush_awaited:
            self.log.update_high_watermark(self.log.end_offset)
        return False
