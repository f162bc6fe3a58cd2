"""Writing the markers that end a transaction into the partitions this broker leads; done when all in-sync replicas have them.

A marker in a partition of `__consumer_offsets` also decides the offsets that were committed in the transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from milepost.errors import MilepostError
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.protocol.error_codes import ErrorCode
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.clock import Clock
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.pending_markers import Markers
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition

OFFSETS_TOPIC = "__consumer_offsets"
COMMIT_SECONDS = 30.0


class Marked(Protocol):
    """Where markers go."""

    @property
    def clock(self) -> Clock: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def groups(self) -> GroupCoordinator: ...
    def missing_partition(self, name: TopicPartition) -> int:
        """What to answer about a partition that is not on this broker."""


class MarkerWriter:
    def __init__(self, broker: Marked):
        self._broker = broker

    def __call__(self, markers: Markers, done: Callable[[dict[TopicPartition, int]], None]) -> None:
        replicas = self._broker.replicas
        errors: dict[TopicPartition, int] = {}
        ends: list[tuple[Partition, int]] = []
        for name in markers.partitions:
            partition = replicas.partition(name)
            try:
                if partition is None:
                    errors[name] = self._broker.missing_partition(name)
                else:
                    ends.append((partition, self._write(partition, markers)))
            except MilepostError as error:
                errors[name] = error.code

        def replicated(codes: dict[TopicPartition, int]) -> None:
            for name, code in codes.items():
                errors[name] = code
                if name.topic == OFFSETS_TOPIC and code == ErrorCode.NONE:
                    self._broker.groups.complete_transaction(markers.producer_id, name.partition, markers.committed)
            done(errors)

        def durable() -> None:
            for partition, _ in ends:
                if partition.log.is_failed:
                    errors[partition.name] = ErrorCode.KAFKA_STORAGE_ERROR
            replicas.when_committed([each for each in ends if each[0].name not in errors], COMMIT_SECONDS, replicated)

        replicas.when_durable((partition for partition, _ in ends), durable)

    def _write(self, partition: Partition, markers: Markers) -> int:
        """Append the marker; the end of the log behind it."""
        data = end_transaction_batch(
            EndTransactionMarker(ControlType.COMMIT if markers.committed else ControlType.ABORT, markers.coordinator_epoch),
            offset=0,
            timestamp=self._broker.clock.now_ms(),
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
        )
        return partition.append(data, AppendOrigin.COORDINATOR, for_all=True).last_offset + 1
