"""The markers of one transaction that is ending: sent until every partition of it has one.

What a partition's answer means:

    0, the marker is in the log                                     done
    3 UNKNOWN_TOPIC_OR_PARTITION, the partition was deleted         done: there is nothing left to end
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT                               done: a log of the old format holds no transactions
    47 INVALID_PRODUCER_EPOCH, a newer producer has written there   done: its first batch, or a marker, ended the old transaction
    52 TRANSACTION_COORDINATOR_FENCED                               stop: another broker is the coordinator now
    anything else                                                   again after 100 ms, for ever

Whoever writes markers must not answer 3 for a partition that is merely somewhere else (6 NOT_LEADER_OR_FOLLOWER is the word for that).

Not promised: one marker per partition. After a crash all of them are sent again; a second marker ends nothing and does no harm.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from milepost.coordinator.transactions.transaction import PREPARE_COMMIT, TransactionMetadata
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.loop import Timer, Timers

logger = logging.getLogger("milepost.coordinator")

RETRY_SECONDS = 0.1
MARKERS_AT_ONCE = 50

DONE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class Markers(NamedTuple):
    """What ends a transaction, one in each of these partitions."""

    partitions: Collection[TopicPartition]
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


class WriteMarkers(Protocol):
    def __call__(self, markers: Markers, done: Callable[[dict[TopicPartition, int]], None]) -> None:
        """Append them, then call `done` once with the error code of each partition, at once or later."""


class PendingMarkers:
    def __init__(
        self,
        metadata: TransactionMetadata,
        coordinator_epoch: int,
        write_markers: WriteMarkers,
        timers: Timers,
        finished: Callable[[], None],
    ):
        self.metadata = metadata
        self.coordinator_epoch = coordinator_epoch
        self.remaining = set(metadata.partitions)
        self._write_markers = write_markers
        self._timers = timers
        self._timer: Timer | None = None
        self._finished = finished
        self._is_stopped = False
        self._to_send: deque[TopicPartition] = deque()
        self._in_flight = 0

    def send(self) -> None:
        if not self.remaining:
            self._finished()
            return
        # Sorted, so that the same transaction gives the same log.
        self._to_send = deque(sorted(self.remaining, key=lambda name: (name.topic, name.partition)))
        self._send_some()

    def _send_some(self) -> None:
        """Others are served before the next ones are sent."""
        self._timer = None
        some = [self._to_send.popleft() for _ in range(min(len(self._to_send), MARKERS_AT_ONCE))]
        if self._to_send:
            self._timer = self._timers.later(0, self._send_some)
        self._in_flight += 1
        metadata = self.metadata
        committed = metadata.state is PREPARE_COMMIT
        markers = Markers(some, metadata.producer_id, metadata.producer_epoch, committed, self.coordinator_epoch)
        self._write_markers(markers, self._written)

    def stop(self) -> None:
        """The coordinator gave this transaction away."""
        self._is_stopped = True
        self._to_send.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _written(self, errors: Mapping[TopicPartition, int]) -> None:
        self._in_flight -= 1
        if self._is_stopped:
            return
        for partition, code in errors.items():
            if code in DONE:
                self.remaining.discard(partition)
            if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                self.stop()
            if code != ErrorCode.NONE:
                logger.warning(
                    "transactional id %r: the marker of producer %d epoch %d for %s was answered with %s",
                    self.metadata.transactional_id,
                    self.metadata.producer_id,
                    self.metadata.producer_epoch,
                    partition,
                    error_name(code),
                )
        if self._is_stopped or self._to_send or self._in_flight:
            return
        if self.remaining:
            self._timer = self._timers.later(RETRY_SECONDS, self.send)
        else:
            self._finished()
