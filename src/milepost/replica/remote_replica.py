"""What a leader knows about one follower: how far it has fetched, and when it last had everything.

A follower is caught up at the moment of a fetch that asks for the leader's end. It may never see the very end of a busy partition, so one
that asks for what was the end at its previous fetch was caught up back then.

A fetch of an earlier registration of its broker may arrive late; it says nothing about the follower now (`has_stale_broker_epoch`).
"""

from __future__ import annotations

from milepost.log.cached_position import CachedPosition

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
"""Followers before 3.5 do not send it."""


class RemoteReplica:
    __slots__ = (
        "_last_fetch_ms",
        "_last_leader_end",
        "broker_epoch",
        "broker_id",
        "cached_position",
        "caught_up_ms",
        "end_offset",
        "start_offset",
    )

    def __init__(self, broker_id: int):
        self.broker_id = broker_id
        self.broker_epoch = NO_BROKER_EPOCH
        self.cached_position: CachedPosition | None = None
        self.start_offset = UNKNOWN_OFFSET
        self.end_offset = UNKNOWN_OFFSET
        self.caught_up_ms = 0
        self._last_fetch_ms = 0
        self._last_leader_end = 0

    def fetched(self, offset: int, start_offset: int, leader_end: int, now_ms: int, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """The follower asks for `offset`: it has everything before."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._last_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self._last_fetch_ms)
        self.start_offset = start_offset
        self.end_offset = offset
        self.broker_epoch = broker_epoch
        self._last_leader_end = leader_end
        self._last_fetch_ms = now_ms

    def has_stale_broker_epoch(self, broker_epoch: int) -> bool:
        return NO_BROKER_EPOCH != broker_epoch < self.broker_epoch

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms

    def reset(self, now_ms: int, *, is_in_sync: bool) -> None:
        """The leader is new: what was known is of another epoch. Members of the in-sync set get their time to show up."""
        self.end_offset = self.start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = now_ms if is_in_sync else 0
        self._last_fetch_ms = self._last_leader_end = 0
