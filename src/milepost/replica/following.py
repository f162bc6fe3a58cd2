"""Following a leader, for one partition: where to go on, and what to do with what the leader says.

Bytes are appended as they come, with the offsets and epochs the leader gave them: replicas are equal byte for byte. Before a follower may
append, its log must be a beginning of the leader's. It finds out by epochs: it says which epoch its last record has; a leader for which
that epoch ended earlier answers with the largest epoch not above it and where that ended (`diverged`). The follower cuts its log there, or
where its own epoch of that number ended if that is earlier, and asks again: each round goes at least one epoch further back.
"""

from __future__ import annotations

import logging
from typing import Any

from milepost.log.log import Log
from milepost.log.quick_append import IS_COMPILED, append_fast_as_follower
from milepost.replica.fetch_session import Position

logger = logging.getLogger("milepost.replica")

NO_EPOCH = -1


class Following:
    def __init__(self, log: Log, topic_id: bytes, leader_epoch: int):
        self.log = log
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.is_truncating = False
        """Whether the leader must be asked for the end of an epoch before anything is fetched (protocols before 2.7)."""
        self.not_before_ms = 0
        self.refusal = 0
        """What the leader's last answer refused, as an error code."""
        self.lag: int | None = None
        """How many records of those that are committed at the leader are missing here, as of its last answer."""

    @property
    def last_fetched_epoch(self) -> int:
        latest = self.log.epochs.latest_epoch
        return NO_EPOCH if latest is None else latest

    @property
    def is_in_sync(self) -> bool:
        """Whether everything that is committed is here, as far as we know."""
        return self.lag == 0

    def position(self, *, tells_epoch: bool) -> Position:
        return Position(
            self.topic_id,
            self.leader_epoch,
            self.log.end_offset,
            self.last_fetched_epoch if tells_epoch else NO_EPOCH,
            self.log.start_offset,
        )

    def diverged(self, epoch: int, end_offset: int) -> bool:
        """The leader's largest epoch not above ours, and where it ended there. Whether the logs now agree up to our end."""
        if epoch == NO_EPOCH or end_offset < 0:
            # The leader knows of no such epoch: only what is committed is safe.
            self._truncate(self.log.high_watermark)
            return True
        own_epoch, own_end = self.log.epochs.end_offset_for(epoch, self.log.end_offset)
        if own_epoch == NO_EPOCH or own_end < 0:
            self._truncate(min(end_offset, self.log.end_offset))
            return True
        self._truncate(min(end_offset, own_end, self.log.end_offset))
        return own_epoch == epoch

    def _truncate(self, offset: int) -> None:
        if offset >= self.log.end_offset:
            # Nothing to cut but an epoch of our own in which we never wrote: keeping it would make the logs diverge permanently.
            self.log.truncate_to(offset)
            return
        if offset < self.log.high_watermark:
            logger.warning(
                "%s: diverges from the leader's log at %d, below the high watermark %d",
                self.log.partition,
                offset,
                self.log.high_watermark,
            )
        logger.info(
            "%s: truncated from %d to %d, where it diverges from the leader's log",
            self.log.partition,
            self.log.end_offset,
            offset,
        )
        self.log.truncate_to(offset)

    def fetched(self, part: Any) -> int:
        """What the leader sent: append it and move the marks. How many bytes it was."""
        log = self.log
        size = 0
        if part.records is not None and len(part.records):
            size = len(part.records)
            if not (IS_COMPILED and append_fast_as_follower(log, part.records)):
                log.append_as_follower(part.records)
        self.lag = max(0, part.high_watermark - log.end_offset)
        committed = min(part.high_watermark, log.end_offset)
        if committed > log.high_watermark:
            log.update_high_watermark(committed)
        if log.start_offset < part.log_start_offset <= log.high_watermark:
            log.increment_start(part.log_start_offset)
        return size

    def out_of_range(self, leader_start: int, leader_end: int) -> None:
        """The leader does not have what comes after our end: it lost its tail, or deleted more than we have."""
        if leader_end < self.log.end_offset:
            self._truncate(leader_end)
        elif leader_start > self.log.end_offset:
            logger.info("%s: truncated fully, starts at %d: the leader has nothing older", self.log.partition, leader_start)
            self.log.truncate_fully_and_start_at(leader_start)
        self.lag = max(0, leader_end - self.log.end_offset)
