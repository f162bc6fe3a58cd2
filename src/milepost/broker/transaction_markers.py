"""Writing the markers that end a transaction into the partitions this broker leads.

A marker in a partition of `__consumer_offsets` also decides the offsets that were committed in the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.log.partition_name import TopicPartition
from milepost.log.producer_entry import AppendOrigin
from milepost.protocol.error_codes import ErrorCode
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

OFFSETS_TOPIC = "__consumer_offsets"


class MarkerWriter:
    def __init__(self, broker: Broker):
        self._broker = broker

    def __call__(
        self,
        partitions: Collection[TopicPartition],
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        done: Callable[[dict[TopicPartition, int]], None],
    ) -> None:
        marker = EndTransactionMarker(ControlType.COMMIT if committed else ControlType.ABORT, coordinator_epoch)
        written = {name: self._write(name, producer_id, producer_epoch, marker) for name in partitions}
        hosted = [partition for partition in map(self._broker.replicas.partition, partitions) if partition is not None]

        def durable() -> None:
            failed = {partition.name: int(ErrorCode.KAFKA_STORAGE_ERROR) for partition in hosted if partition.log.is_failed}
            done(written | failed)

        self._broker.replicas.when_durable(hosted, durable)

    def _write(self, name: TopicPartition, producer_id: int, producer_epoch: int, marker: EndTransactionMarker) -> int:
        broker = self._broker
        if broker.replicas.partition(name) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        data = end_transaction_batch(
            marker, offset=0, timestamp=broker.clock.now_ms(), producer_id=producer_id, producer_epoch=producer_epoch
        )
        try:
            broker.replicas.append(name, data, AppendOrigin.COORDINATOR)
        except MilepostError as error:
            return error.code
        if name.topic == OFFSETS_TOPIC:
            broker.groups.complete_transaction(producer_id, name.partition, marker.control_type is ControlType.COMMIT)
        return ErrorCode.NONE
