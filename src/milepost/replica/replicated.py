"""A partition with replicas on other brokers: led here, followed here, or neither until the controller speaks.

leading     appends are allowed; the high watermark is what all in-sync replicas have (`leadership`)
suspended   leading, as far as we know, but in a registration that is over: nothing is done until the controller says it again
following   appends of clients are refused; a fetcher brings what the leader has

What a producer sent behind a batch that was refused is refused alike, and so is what overtook it (`refused_batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.errors import NotEnoughReplicas, NotLeaderOrFollower, OutOfOrderSequence
from milepost.log.append_info import AppendInfo
from milepost.log.examination import Examined
from milepost.log.log import Log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.producer_state.verification import VerificationGuard
from milepost.metrics.topic_metrics import TopicMetrics
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import RecordBatch
from milepost.replica.leadership import IsrChanger, Leadership, LeaderState
from milepost.replica.metadata import NO_LEADER
from milepost.replica.partition import CLIENT, AppendObserver, Partition
from milepost.replica.purgatory import COMMITTED
from milepost.replica.refused_batches import OVERTAKING_MS, RefusedBatches

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer

NO_EPOCH = -1


class ReplicatedPartition(Partition):
    is_solo = False

    def __init__(
        self,
        log: Log,
        topic_id: bytes,
        broker_id: int,
        topic_metrics: TopicMetrics,
        clock: Clock,
        observer: AppendObserver,
        is_fenced: Callable[[], bool] = lambda: False,
    ):
        super().__init__(log, topic_id, NO_LEADER, topic_metrics, observer)
        self._is_fenced = is_fenced
        self._committed_key = (COMMITTED, log.partition)
        self.is_suspended = False
        self.broker_id = broker_id
        self.clock = clock
        self.leadership: Leadership | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas = []
        self._told_isr: list[int] = []
        self._refused = RefusedBatches(log.producers)

    # Roles.

    def lead(self, state: LeaderState, changer: IsrChanger, max_lag_ms: int) -> Leadership:
        """The controller made this broker the leader, in a new epoch."""
        now = self.clock.now_ms()
        # A leader's first word in its epoch: whoever asks later where the epoch began is told the end as it is now.
        self.log.assign_epoch(state.leader_epoch)
        self._take(self.broker_id, state)
        self.leadership = Leadership(self.log, self.broker_id, state, changer, now, max_lag_ms)
        self.leadership.advance(now)
        return self.leadership

    def follow(self, leader_id: int, state: LeaderState) -> None:
        self.leadership = None
        self._take(leader_id, state)

    def _take(self, leader_id: int, state: LeaderState) -> None:
        self.is_suspended = False
        self.leader_id = leader_id
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = list(state.replicas)
        self._told_isr = sorted(state.isr)

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    @property
    def knows_what_is_committed(self) -> bool:
        return self.leadership is None or self.log.high_watermark >= self.leadership.start_offset

    @property
    def in_sync_replicas(self) -> list[int]:
        """A leader knows; a follower knows what it was told when it became one."""
        return self._told_isr if self.leadership is None else sorted(self.leadership.state.isr)

    @property
    def committed_key(self) -> Hashable:
        return self._committed_key

    def fault(self, *, only_leader: bool = True) -> int:
        if self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if only_leader else ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_suspended or self._is_fenced() else ErrorCode.NONE

    def suspend(self) -> None:
        """The registration in which this broker was made the leader is over, and with it what it asked of ZooKeeper."""
        self.is_suspended = self.leadership is not None
        if self.leadership is not None:
            self.leadership.ask_again()

    def confirm(self, state: LeaderState) -> None:
        """The controller says what it said before; it may know of a change of the in-sync replicas whose answer we never got."""
        self.is_suspended = False
        if self.leadership is not None and state.partition_epoch > self.leadership.state.partition_epoch:
            self.leadership.update(state, self.clock.now_ms())

    # Appending.

    @property
    def has_followers(self) -> bool:
        return self.leadership is None or bool(self.leadership.remote)

    def _append(
        self,
        data: ReadableBuffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        examined: Examined | None,
        for_all: bool,
    ) -> AppendInfo:
        if self.leadership is None or self.fault():
            raise NotLeaderOrFollower(f"broker {self.broker_id} does not lead {self.name}; broker {self.leader_id} does")
        if self._refused and origin is CLIENT:
            self._refused.check(RecordBatch(data))
        if for_all:
            self._ensure_enough_replicas(self.leadership)
        try:
            return self.log.append_as_leader(
                data, leader_epoch=self.leader_epoch, origin=origin, verification_guard=guard, examined=examined
            )
        except OutOfOrderSequence as gap:
            is_new = self.clock.now_ms() < self.leadership.since_ms + OVERTAKING_MS
            if is_new and self._refused.is_overtaking(RecordBatch(data), self.leadership.start_offset):
                raise NotLeaderOrFollower(
                    f"{gap}; the leader before broker {self.broker_id} may have got what is missing"
                ) from gap
            raise

    def advance(self) -> bool:
        return self.leadership is not None and self.leadership.advance(self.clock.now_ms())

    def note_refused(self, data: ReadableBuffer, error: NotLeaderOrFollower | NotEnoughReplicas) -> None:
        self._refused.note(RecordBatch(data), error)

    def acknowledgement(self, end_offset: int) -> int | None:
        if not self.is_hosted or self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.leadership.acknowledgement(end_offset, self.log.config.min_insync_replicas)

    def _ensure_enough_replicas(self, leadership: Leadership) -> None:
        least = self.log.config.min_insync_replicas
        if not leadership.may_append(least):
            raise NotEnoughReplicas(f"{self.name}: {len(leadership.state.isr)} replicas are in sync, min.insync.replicas is {least}")
