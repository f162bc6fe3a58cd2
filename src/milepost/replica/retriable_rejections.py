"""Batches of idempotent producers that a leader rejected with a retriable error, so that those sent right behind them get the same.

An idempotent producer has up to five batches on their way. When the first of them is refused because this broker may not lead now (6), or
because too few replicas are in sync (19), and that is over a moment later, the second one would be taken for a gap: 45
OUT_OF_ORDER_SEQUENCE_NUMBER. A producer that gets this error begins a new epoch for all its partitions, in which no broker can
recognise what it had sent to others before: records are stored twice. With the error of the first batch, it sends both again in
their order.

    first of a producer that is refused                  remembered: its sequence, and with which error
    one behind it, while the log still lacks the first   refused with that error, four times at most: more were not on their way
    the first one again                                  forgotten; it is appended, or refused anew
    another epoch, or the log has the first by now       forgotten; the log decides

The first may also be on its way to the leader before this one: a producer that hears of a new leader sends it what comes next, and waits
for the answer of the old one meanwhile. So a new leader that finds a gap before the first batch that a producer brings it says 6, too, as
long as that may last (`OVERTAKING_MS`).
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import NotEnoughReplicas, NotLeaderOrFollower
from milepost.log.producer_state.producer_entry import BATCHES_KEPT
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.record.batch import RecordBatch
from milepost.record.sequence import MAX_SEQUENCE

PassingError = NotLeaderOrFollower | NotEnoughReplicas
MOST_PRODUCERS = 10_000
OVERTAKING_MS = 10_000


class Refused(NamedTuple):
    epoch: int
    sequence: int
    error: PassingError
    more: int
    """How many may still have been on their way behind it."""


class RetriableRejections:
    def __init__(self, producers: ProducerStateManager):
        self._producers = producers
        self.first: dict[int, Refused] = {}
        """Of each producer, by its id."""

    def note(self, batch: RecordBatch, error: PassingError) -> None:
        """A batch was rejected, and its producer gets the error."""
        producer_id = batch.producer_id
        if producer_id < 0:
            return
        first = self._before(batch)
        if first is not None:
            self.first[producer_id] = first._replace(more=max(0, first.more - 1))
            return
        if len(self.first) >= MOST_PRODUCERS:
            del self.first[next(iter(self.first))]
        self.first[producer_id] = Refused(batch.producer_epoch, batch.base_sequence, error, BATCHES_KEPT - 1)

    def check(self, batch: RecordBatch) -> None:
        """Refuse a batch that was sent behind one that was refused. Asked twice of one batch, it says the same: `note` counts."""
        if batch.producer_id not in self.first:
            return
        first = self._before(batch)
        if first is None or not first.more:
            del self.first[batch.producer_id]
            return
        raise type(first.error)(f"{first.error} (the batch with sequence {first.sequence} must come first)")

    def may_follow_unseen_batch(self, batch: RecordBatch, led_from: int) -> bool:
        """Whether a batch leaves a gap that the leader before us may have got. `led_from`: where this leader began to write."""
        known = self._producers.last_entry(batch.producer_id)
        return (
            known is not None
            and known.epoch == batch.producer_epoch
            and known.last_data_offset < led_from
            and is_behind(batch.base_sequence, known.last_sequence)
        )

    def _before(self, batch: RecordBatch) -> Refused | None:
        """The batch before this one that was refused and is still missing."""
        first = self.first.get(batch.producer_id)
        if first is None or first.epoch != batch.producer_epoch or not is_behind(batch.base_sequence, first.sequence):
            return None
        known = self._producers.last_entry(batch.producer_id)
        if known is None or known.epoch < first.epoch:
            return first
        is_missing = known.epoch == first.epoch and (not known.batches or is_behind(first.sequence, known.last_sequence))
        return first if is_missing else None


def is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence comes later than another one; 0 comes after the largest."""
    return 0 < (sequence - other) % (MAX_SEQUENCE + 1) < MAX_SEQUENCE // 2
