"""Leading a partition: its followers, the in-sync replicas, and the high watermark.

    high watermark   the smallest end of the log over all in-sync replicas: below it, a record is on each of them. A follower that is
                     about to come in sync counts already, so that the watermark cannot run away from it meanwhile
    shrink           a follower that was not caught up within `replica.lag.time.max.ms` leaves the in-sync replicas
    expand           one that has reached the high watermark and the start of this leader's epoch joins them

A proposal carries the broker epoch of each follower (followers send it with every fetch since 3.5): a broker that restarted meanwhile has
another epoch, and may have lost records (KIP-903).

A change is proposed to the controller (`IsrChanger`), one at a time. Until it is confirmed the *larger* of the old and the new set counts:
what is acknowledged must be on all replicas of the set that turns out to hold. A leader with a stale epoch waits for the next
LeaderAndIsr.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from milepost.log.log import Log
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.replica.remote_replica import NO_BROKER_EPOCH, UNKNOWN_OFFSET, RemoteReplica

logger = logging.getLogger("milepost.replica")


class LeaderState(NamedTuple):
    """What the controller said when it made this broker the leader, and since."""

    leader_epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool = False


class Confirmed(NamedTuple):
    """What became of a proposal: the in-sync replicas and partition epoch that hold now, or an error."""

    error: int
    isr: frozenset[int] = frozenset()
    partition_epoch: int = -1


class IsrChanger(Protocol):
    def propose(
        self,
        log: Log,
        state: LeaderState,
        isr: frozenset[int],
        epochs: Mapping[int, int],
        done: Callable[[Confirmed], object],
    ) -> None:
        """Ask for other in-sync replicas, with the broker epochs of the followers among them, as far as they are known; `done` is called
        once, perhaps much later."""

    def may_join(self, broker_id: int) -> bool:
        """Whether a broker is alive and not about to leave."""


class NoFollowers:
    """The in-sync replicas of a leader that is the whole cluster: none can come, and none can leave."""

    def propose(
        self,
        log: Log,
        state: LeaderState,
        isr: frozenset[int],
        epochs: Mapping[int, int],
        done: Callable[[Confirmed], object],
    ) -> None:
        raise AssertionError(f"{log.partition} has one replica: its in-sync replicas are what they were")

    def may_join(self, broker_id: int) -> bool:
        return False


class Leadership:
    __slots__ = (
        "_changer",
        "_epochs",
        "_is_unheard",
        "_proposed",
        "broker_id",
        "log",
        "max_lag_ms",
        "on_confirmed",
        "remote",
        "since_ms",
        "start_offset",
        "state",
    )

    def __init__(self, log: Log, broker_id: int, state: LeaderState, changer: IsrChanger, now_ms: int, max_lag_ms: int):
        self.log = log
        self.broker_id = broker_id
        self.state = state
        self.max_lag_ms = max_lag_ms
        self.start_offset = log.end_offset
        """Where this leader's epoch begins."""
        self.since_ms = now_ms
        self._changer = changer
        self._proposed: frozenset[int] | None = None
        self._epochs: dict[int, int] = {}
        self._is_unheard = False
        self.on_confirmed: Callable[[], object] = lambda: None
        """The ISR has changed: the high watermark may move without a fetch."""
        self.remote: dict[int, RemoteReplica] = {}
        self._follow(now_ms)

    def _follow(self, now_ms: int) -> None:
        for broker_id in self.state.replicas:
            if broker_id != self.broker_id and broker_id not in self.remote:
                self.remote[broker_id] = RemoteReplica(broker_id)
                self.remote[broker_id].reset(now_ms, is_in_sync=broker_id in self.state.isr)
        for broker_id in self.remote.keys() - set(self.state.replicas):
            del self.remote[broker_id]

    def update(self, state: LeaderState, now_ms: int) -> None:
        """Another LeaderAndIsr for the same leader: other replicas, or an ISR that the controller changed itself."""
        self.state = state
        self._proposed = None
        self._follow(now_ms)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who may be in sync: what was confirmed, and what was asked for."""
        return self.state.isr if self._proposed is None else self.state.isr | self._proposed

    # Followers.

    def fetched(self, broker_id: int, offset: int, start_offset: int, now_ms: int, broker_epoch: int = NO_BROKER_EPOCH) -> bool:
        """A follower asks for `offset`. Whether the high watermark moved."""
        replica = self.remote[broker_id]
        replica.fetched(offset, start_offset, self.log.end_offset, now_ms, broker_epoch)
        if broker_id not in self.maximal_isr and self._proposed is None and self._may_join(replica):
            self._propose(self.state.isr | {broker_id})
        return self.advance(now_ms)

    def _may_join(self, replica: RemoteReplica) -> bool:
        needed = max(self.log.high_watermark, self.start_offset)
        return replica.end_offset >= needed and self._changer.may_join(replica.broker_id)

    def check_lag(self, now_ms: int) -> None:
        """Let go of followers that fell behind."""
        if self._proposed is not None:
            if self._is_unheard:
                self._ask()
            return
        behind = {
            broker_id
            for broker_id, replica in self.remote.items()
            if broker_id in self.state.isr and not replica.is_caught_up(self.log.end_offset, now_ms, self.max_lag_ms)
        }
        if behind:
            logger.info(
                "%s: shrinking the ISR: replicas %s are more than %d ms behind offset %d",
                self.log.partition,
                sorted(behind),
                self.max_lag_ms,
                self.log.end_offset,
            )
            self._propose(self.state.isr - behind)

    # In-sync replicas.

    def ask_again(self) -> None:
        """What was proposed may have been lost on its way: propose it once more, with the next look."""
        self._is_unheard = self._proposed is not None

    def _propose(self, isr: frozenset[int]) -> None:
        self._proposed = isr
        self._epochs = {broker_id: replica.broker_epoch for broker_id, replica in self.remote.items() if broker_id in isr}
        self._ask()

    def _ask(self) -> None:
        """For the first time, or again: with the epochs of the first time."""
        assert self._proposed is not None
        self._is_unheard = False
        asked = self.state
        self._changer.propose(self.log, asked, self._proposed, self._epochs, lambda confirmed: self._confirmed(asked, confirmed))

    def _confirmed(self, asked: LeaderState, confirmed: Confirmed) -> None:
        if self.state is not asked or self._proposed is None:
            return  # superseded by the controller
        if confirmed.error == 0:
            if confirmed.partition_epoch >= self.state.partition_epoch:
                self.state = self.state._replace(
                    isr=confirmed.isr, partition_epoch=confirmed.partition_epoch, is_recovering=False
                )
            self._proposed = None
            self.on_confirmed()
        elif confirmed.error in NOT_NOW:
            self._proposed = None
        else:
            # A stale epoch, or no longer the leader: the next LeaderAndIsr decides. Any other error says nothing about the proposal,
            # so it is repeated. Until then the larger set counts, because an earlier try may have succeeded.
            error = confirmed.error
            logger.info("%s: change of the ISR failed: %s (%d)", self.log.partition, error_name(error), error)
            self._is_unheard = confirmed.error not in GIVE_UP

    # The high watermark.

    def advance(self, now_ms: int) -> bool:
        """Move the high watermark as far as the in-sync replicas allow; whether it moved."""
        counting = self.maximal_isr
        target = self.log.end_offset
        for broker_id, replica in self.remote.items():
            if replica.end_offset < target and (broker_id in counting or self._is_joining(replica, now_ms)):
                target = replica.end_offset
        if target == UNKNOWN_OFFSET or target <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(target)
        return True

    def _is_joining(self, replica: RemoteReplica, now_ms: int) -> bool:
        return (
            replica.end_offset != UNKNOWN_OFFSET
            and replica.is_caught_up(self.log.end_offset, now_ms, self.max_lag_ms)
            and self._changer.may_join(replica.broker_id)
        )

    @property
    def low_watermark(self) -> int:
        """From where on every live replica has the log: what DeleteRecords waits for."""
        starts = [self.log.start_offset]
        starts += [replica.start_offset for replica in self.remote.values() if self._changer.may_join(replica.broker_id)]
        return min(starts)

    # Acknowledging.

    def acknowledgement(self, end_offset: int, min_isr: int) -> int | None:
        """May what ends at `end_offset` be acknowledged to a producer that wants all in-sync replicas? None: not yet."""
        if self.log.high_watermark < end_offset:
            return None
        enough = min(min_isr, len(self.state.replicas))
        return ErrorCode.NONE if len(self.state.isr) >= enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def may_append(self, min_isr: int) -> bool:
        """For acks=all: whether enough replicas are in sync to begin with."""
        return len(self.state.isr) >= min(min_isr, len(self.state.replicas))


GIVE_UP = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
NOT_NOW = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The proposal was looked at and was not written; another one may be."""
