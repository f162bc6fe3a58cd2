"""One partition on this broker: its log, who leads it, what consumers may read, and the one way into its log (`append`).

leading     appends are allowed; the high watermark is what all in-sync replicas have (`leadership`)
alone       leading for good: this broker is the whole cluster, so it is the in-sync set and the high watermark is the log end, or the
            end of what is durable where `flush.messages` asks for that
suspended   leading, as far as we know, but in a registration that is over: nothing is done until the controller says it again
following   appends of clients are refused; a fetcher brings what the leader has

A partition neither leads nor follows until it gets a role: by the controller, or alone as soon as it is hosted.

What a producer sent behind a batch that was refused is refused alike, and so is what overtook it (`retriable_rejections`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol

from milepost.codec.text import counted
from milepost.errors import MilepostError, NotEnoughReplicas, NotLeaderOrFollower, OutOfOrderSequence
from milepost.log.append_info import AppendInfo
from milepost.log.examination import Examined
from milepost.log.log import Log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.producer_state.verification import VerificationGuard
from milepost.metrics.topic_metrics import TopicMetrics
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import RecordBatch
from milepost.replica.leadership import IsrChanger, Leadership, LeaderState, NoFollowers
from milepost.replica.metadata import NO_LEADER
from milepost.replica.purgatory import COMMITTED
from milepost.replica.retriable_rejections import OVERTAKING_MS, RetriableRejections
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer

NO_EPOCH = -1
CLIENT = AppendOrigin.CLIENT


class AppendObserver(Protocol):
    """What every append to any partition of a broker is followed by: it is counted, and who waits for it is woken."""

    def appended(self, partition: Partition, size: int, records: int) -> None: ...

    def refused(self, partition: Partition, data: ReadableBuffer, error: MilepostError) -> None: ...


def never() -> bool:
    return False


class Partition:
    def __init__(
        self,
        log: Log,
        topic_id: bytes,
        broker_id: int,
        topic_metrics: TopicMetrics,
        observer: AppendObserver,
        is_fenced: Callable[[], bool] = never,
    ):
        self._observer = observer
        self._is_fenced = is_fenced
        self.log = log
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.topic_metrics = topic_metrics
        self.is_online = True
        self.has_one_replica = False
        """Whether an append is all it takes: there is no other replica, and no other leader can be elected."""
        self.is_suspended = False
        self.leadership: Leadership | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas: list[int] = []
        self.committed_key: Hashable = (COMMITTED, log.partition)
        """What those wait for in the purgatory who want more to be committed; `name` is for more to be appended."""
        self._isr_of_leader: list[int] = []
        self._refused = RetriableRejections(log.producers)

    @property
    def name(self) -> TopicPartition:
        return self.log.partition

    # LeaderAndIsrHandler.

    def lead_alone(self) -> None:
        """There are no other brokers: every epoch of the log was led here, and the latest goes on."""
        latest = self.log.epochs.latest_epoch
        state = LeaderState(0 if latest is None else latest, frozenset((self.broker_id,)), (self.broker_id,), 0)
        self._take(self.broker_id, state)
        self.leadership = Leadership(self.log, self.broker_id, state, NoFollowers(), 0, 0)
        self.has_one_replica = True
        self.committed_key = self.log.partition
        self.log.update_high_watermark(self.log.end_offset)

    def lead(self, state: LeaderState, changer: IsrChanger, max_lag_ms: int) -> Leadership:
        """The controller made this broker the leader, in a new epoch."""
        now = self.log.clock.now_ms()
        # A leader's epoch begins at the log end as it is now, for everyone who asks later.
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
        self._isr_of_leader = sorted(state.isr)

    def suspend(self) -> None:
        """The registration in which this broker was made the leader is over, and with it what it asked of ZooKeeper."""
        self.is_suspended = self.leadership is not None
        if self.leadership is not None:
            self.leadership.ask_again()

    def confirm(self, state: LeaderState) -> None:
        """The controller says what it said before; it may know of a change of the in-sync replicas whose answer we never got."""
        self.is_suspended = False
        if self.leadership is not None and state.partition_epoch > self.leadership.state.partition_epoch:
            self.leadership.update(state, self.log.clock.now_ms())

    # What holds now.

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads it."""
        return self.leadership is not None

    @property
    def has_followers(self) -> bool:
        """Whether other replicas must have an append before it is acknowledged with acks=all."""
        return self.leadership is None or bool(self.leadership.remote)

    @property
    def knows_what_is_committed(self) -> bool:
        """Not before a new leader's high watermark has reached the start of its epoch."""
        return self.leadership is None or self.log.high_watermark >= self.leadership.start_offset

    @property
    def in_sync_replicas(self) -> list[int]:
        """A leader knows it; a follower has the one of the LeaderAndIsr that made it a follower."""
        return self._isr_of_leader if self.leadership is None else sorted(self.leadership.state.isr)

    def unavailable_error(self, *, only_leader: bool = True) -> int:
        """Why this broker cannot serve the partition now, as an error code. Only its leader may, or any replica."""
        if self.has_one_replica:
            return ErrorCode.NONE
        if self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if only_leader else ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_suspended or self._is_fenced() else ErrorCode.NONE

    def acknowledgement(self, end_offset: int) -> int | None:
        """The error code for acks=all, when all in-sync replicas have everything before `end_offset`; None: not yet."""
        leadership = self.leadership
        if not self.is_online or leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not leadership.remote:
            return ErrorCode.NONE
        return leadership.acknowledgement(end_offset, self.log.config.min_insync_replicas)

    # Appending.

    def append(
        self,
        data: ReadableBuffer,
        origin: AppendOrigin = CLIENT,
        guard: VerificationGuard | None = None,
        examined: Examined | None = None,
        for_all: bool = False,
    ) -> AppendInfo:
        """Append one batch as the leader: the one way into the log for clients, coordinators and markers.

        Asked in this order: is it led here, is this broker fenced, was a batch before this one refused, are enough replicas in sync
        (`for_all`: acks=all); then the log decides, under the guard of a transaction that begins here. Counted whether it is appended
        or refused.
        """
        leadership = self.leadership
        try:
            if leadership is None or (not self.has_one_replica and (self.is_suspended or self._is_fenced())):
                raise NotLeaderOrFollower(f"broker {self.broker_id} does not lead {self.name}; broker {self.leader_id} does")
            if self._refused.first and origin is CLIENT:
                self._refused.check(RecordBatch(data))
            if for_all and leadership.remote:
                self._ensure_enough_replicas(leadership)
            try:
                info = self.log.append_as_leader(data, self.leader_epoch, origin, guard, examined)
            except OutOfOrderSequence as gap:
                if self._may_be_overtaking(data, leadership):
                    raise NotLeaderOrFollower(
                        f"{gap}; the leader before broker {self.broker_id} may have the missing batch"
                    ) from gap
                raise
        except MilepostError as error:
            if origin is CLIENT and isinstance(error, NotLeaderOrFollower | NotEnoughReplicas):
                self.note_refused(data, error)
            self._observer.refused(self, data, error)
            raise
        self._observer.appended(self, len(data), info.last_offset - info.first_offset + 1)
        return info

    def _ensure_enough_replicas(self, leadership: Leadership) -> None:
        least = self.log.config.min_insync_replicas
        if not leadership.may_append(least):
            raise NotEnoughReplicas(
                f"{self.name}: {counted(len(leadership.state.isr), 'replica')} in sync, min.insync.replicas is {least}"
            )

    def _may_be_overtaking(self, data: ReadableBuffer, leadership: Leadership) -> bool:
        """Whether what is missing before a batch may be on its way to the leader before this one. Alone there was none."""
        is_new = not self.has_one_replica and self.log.clock.now_ms() < leadership.since_ms + OVERTAKING_MS
        return is_new and self._refused.may_follow_unseen_batch(RecordBatch(data), leadership.start_offset)

    def note_refused(self, data: ReadableBuffer, error: NotLeaderOrFollower | NotEnoughReplicas) -> None:
        """A client's batch was refused for a reason that may soon be over: those sent behind it are to be refused alike."""
        self._refused.note(RecordBatch(data), error)

    def advance(self) -> bool:
        """After an append: whether others than those who wait for the append itself have something to read now."""
        if self.has_one_replica:
            if not self.log.is_flush_awaited:
                self.log.update_high_watermark(self.log.end_offset)
            return False
        return self.leadership is not None and self.leadership.advance(self.log.clock.now_ms())
